"""What must not be seen: padding, other examples of the batch, the future, and the order of a memory that has none."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.masks import Mask
from regard.testing.mechanism_case import BATCH, Case, identical, same

PADDING = 4
"""How many of the second row's places are padding."""


def assert_padding_is_invisible(case: Case) -> None:
    """Padding may hold anything, even NaN: the same shapes give the same bits, forward and backward, and leaving the
    padding out gives the same numbers."""
    layer = case.layer()
    mask = _padded(case.n)
    clean = _filled(case.x(), mask, 0.0)
    out, grads = _run(layer, clean, None, mask)
    for garbage in (1e9, torch.nan, torch.inf):
        other, other_grads = _run(layer, _filled(clean, mask, garbage), None, mask)
        identical(other[mask], out[mask], f"padding of {garbage} in a sequence is seen")
        for name, grad in grads.items():
            identical(other_grads[name], grad, f"padding of {garbage} in a sequence changes the gradient of {name}")
    with torch.no_grad():
        short = layer(clean[1:, :-PADDING])[0]
        same(out[1, :-PADDING], short, "a padded sequence differs from the same without padding")
        causal = layer(clean, mask=mask, causal=True)
        same(causal[1, :-PADDING], layer(clean[1:, :-PADDING], causal=True)[0], "padding is seen under a causal mask")
    if case.cls.supports_cross_attention:
        _assert_memory_padding(case)


def _assert_memory_padding(case: Case) -> None:
    layer, x, mask = case.layer(), case.x(), _padded(case.m)
    clean = _filled(case.memory(), mask, 0.0)
    out, grads = _run(layer, x, clean, mask)
    for garbage in (1e9, torch.nan, torch.inf):
        dirty = _filled(clean, mask, garbage)
        other, other_grads = _run(layer, x, dirty, mask)
        identical(other, out, f"padding of {garbage} in a memory is seen")
        for name, grad in grads.items():
            identical(other_grads[name], grad, f"padding of {garbage} in a memory changes the gradient of {name}")
        with torch.no_grad():
            read = layer(x, layer.project_kv(dirty, mask=mask))
            identical(read, layer(x, clean, mask=mask), f"padding of {garbage} is seen in a memory that was read once")
            pairs = torch.ones(BATCH, case.n, case.m, dtype=torch.bool)
            both = layer(x, layer.project_kv(dirty, mask=mask), mask=pairs)
            same(both, out, "a mask of pairs makes a memory's padding seen")
    with torch.no_grad():
        short = layer(x[1:], clean[1:, :-PADDING])[0]
    same(out[1], short, "a padded memory differs from the same without padding")


def assert_batch_mates_are_invisible(case: Case) -> None:
    """What else is in the batch changes nothing, not a bit at the same shapes, and gets no gradient."""
    layer, x = case.layer(), case.x()
    other = torch.stack((x[0], 3 * x[1].flip(0)))
    memory = case.memory() if case.cls.supports_cross_attention else None
    with torch.no_grad():
        out = layer(x, memory)
        mates = None if memory is None else torch.stack((memory[0], memory[1].flip(0)))
        identical(layer(other, mates)[0], out[0], "another example of the batch is seen")
        same(layer(x[:1], None if memory is None else memory[:1])[0], out[0], "an example alone differs from a batch")
    given = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(layer(given, causal=True)[0].square().sum(), given)
    assert bool((grad[1] == 0).all()), "a loss on one example gives gradients to another"
    assert bool((grad[0] != 0).any()), "a loss on an example gives it no gradient"


def assert_future_is_invisible(case: Case) -> None:
    """Under a causal mask what comes later changes nothing and gets a gradient of exactly zero; what comes up to now
    is seen; and causal=True is the triangle of pairs."""
    layer, x = case.layer(), case.x()
    with torch.no_grad():
        out = layer(x, causal=True)
        triangle = torch.ones(1, 1, case.n, case.n, dtype=torch.bool).tril()
        same(layer(x, mask=Mask(attn_mask=triangle)), out, "causal=True differs from a triangle of pairs")
    for now in (0, case.n // 2, case.n - 2):
        with torch.no_grad():
            changed = x.clone()
            changed[:, now + 1 :] = 100 * changed[:, now + 1 :].flip(1) + 7
            later = layer(changed, causal=True)
            identical(later[:, : now + 1], out[:, : now + 1], f"the future after place {now} is seen")
        given = x.clone().requires_grad_()
        (grad,) = torch.autograd.grad(layer(given, causal=True)[:, now].square().sum(), given)
        leak = float(grad[:, now + 1 :].abs().max())
        assert leak == 0.0, f"place {now} gives gradients up to {leak:.2e} to the future"
        assert bool((grad[:, now] != 0).any()), f"place {now} cannot see itself under a causal mask"


def assert_order(case: Case) -> None:
    """The order of memory does not matter, unless the mechanism says so; with positions it does matter."""
    layer, x = case.layer(), case.x()
    if case.kind == "embed":  # order is then in the inputs themselves
        return
    order = torch.randperm(
        case.m if case.cls.supports_cross_attention else case.n, generator=torch.Generator().manual_seed(3)
    )
    with torch.no_grad():
        if case.cls.supports_cross_attention:
            memory = case.memory()
            out, turned = layer(x, memory), layer(x, memory[:, order])
        else:
            out, turned = layer(x)[:, order], layer(x[:, order])
    if not case.cls.order_sensitive and case.kind == "none":
        same(turned, out, "the order of the memory matters, though the mechanism does not say that it is `ordered`")
        return
    if case.kind != "none":
        far = float((turned - out).abs().max())
        assert far > 1e-6, f"the order of the memory does not matter: are {case.positions!r} positions ignored?"


def _padded(n: int) -> Tensor:
    mask = torch.ones(BATCH, n, dtype=torch.bool)
    mask[1, n - PADDING :] = False
    return mask


def _filled(x: Tensor, mask: Tensor, value: float) -> Tensor:
    return x.masked_fill(~mask[..., None], value)


def _run(layer, x: Tensor, memory: Tensor | None, mask: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The output, and the gradients of parameters and inputs for a loss on the real places."""
    layer.zero_grad()
    x = x.clone().requires_grad_()
    memory = None if memory is None else memory.clone().requires_grad_()
    out = layer(x, memory, mask=mask)
    real = mask if memory is None else torch.ones(out.shape[:2], dtype=torch.bool)
    out[real].square().sum().backward()
    grads = {name: p.grad for name, p in layer.named_parameters() if p.grad is not None}
    for name, given in (("x", x), ("memory", memory)):
        if given is not None and given.grad is not None:
            grads[name] = given.grad
    return out.detach(), grads


CHECKS = {
    "padding is invisible": assert_padding_is_invisible,
    "batch mates are invisible": assert_batch_mates_are_invisible,
    "future is invisible": assert_future_is_invisible,
    "order": assert_order,
}
