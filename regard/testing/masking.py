"""Checks of what must have no influence: padding, other rows of the batch, the future, and the order of the keys."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.layers.multi_head_attention import MultiHeadAttention
from regard.testing.mechanism_case import BATCH, Case, assert_close, assert_identical, padding_mask

PADDING = 4
"""Padding tokens of the second row."""


def assert_padding_is_invisible(case: Case) -> None:
    """Padding may hold anything, even NaN.

    With the same shapes every bit is the same, forward and backward. Without the padding the numbers are the same.
    """
    layer, mask = case.layer(), padding_mask(case.n, PADDING)
    clean = _fill_padding(case.x(), mask, 0.0)
    out, grads = _run(layer, clean, None, mask)
    for garbage in (1e9, torch.nan, torch.inf):
        other, other_grads = _run(layer, _fill_padding(clean, mask, garbage), None, mask)
        assert_identical(other[mask], out[mask], f"padding of {garbage} changes self-attention")
        _assert_same_grads(other_grads, grads, f"padding of {garbage} changes self-attention")
    with torch.no_grad():
        unpadded = layer(clean[1:, :-PADDING])[0]
        assert_close(out[1, :-PADDING], unpadded, "a padded sequence differs from the same without padding")
        causal = layer(clean, key_mask=mask, causal=True)[1, :-PADDING]
        unpadded = layer(clean[1:, :-PADDING], causal=True)[0]
        assert_close(causal, unpadded, "padding changes causal self-attention")
    if case.crosses:
        _assert_context_padding_is_invisible(case)


def _assert_context_padding_is_invisible(case: Case) -> None:
    layer, x, mask = case.layer(), case.x(), padding_mask(case.m, PADDING)
    clean = _fill_padding(case.context(), mask, 0.0)
    out, grads = _run(layer, x, clean, mask)
    for garbage in (1e9, torch.nan, torch.inf):
        dirty = _fill_padding(clean, mask, garbage)
        other, other_grads = _run(layer, x, dirty, mask)
        assert_identical(other, out, f"padding of {garbage} in the context changes the output")
        _assert_same_grads(other_grads, grads, f"padding of {garbage} in the context changes the output")
        with torch.no_grad():
            cache = layer.project_kv(dirty, key_mask=mask)
            message = f"padding of {garbage} in a cached context changes the output"
            assert_identical(layer(x, cache), layer(x, clean, key_mask=mask), message)
            pairs = torch.ones(BATCH, case.n, case.m, dtype=torch.bool)
            assert_close(layer(x, cache, attn_mask=pairs), out, "an attn_mask makes the context's padding visible")
    with torch.no_grad():
        unpadded = layer(x[1:], clean[1:, :-PADDING])[0]
    assert_close(out[1], unpadded, "a padded context differs from the same without padding")


def assert_batch_rows_are_independent(case: Case) -> None:
    """Other rows of the batch change no bit at the same shapes, and get no gradient."""
    layer, x = case.layer(), case.x()
    other = torch.stack((x[0], 3 * x[1].flip(0)))
    context = case.context() if case.crosses else None
    with torch.no_grad():
        out = layer(x, context)
        other_context = None if context is None else torch.stack((context[0], context[1].flip(0)))
        assert_identical(layer(other, other_context)[0], out[0], "another row of the batch changes the output")
        alone = layer(x[:1], None if context is None else context[:1])[0]
        assert_close(alone, out[0], "a batch of one row differs from a larger batch")
    inputs = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(layer(inputs, causal=True)[0].square().sum(), inputs)
    assert bool((grad[1] == 0).all()), "a loss on one row has a gradient in another row"
    assert bool((grad[0] != 0).any()), "a loss on a row has no gradient in it"


def assert_future_is_invisible(case: Case) -> None:
    """Under a causal mask later tokens change nothing and get a gradient of exactly zero.

    A token attends to itself, and causal=True equals a triangular attn_mask.
    """
    layer, x = case.layer(), case.x()
    with torch.no_grad():
        out = layer(x, causal=True)
        triangle = torch.ones(case.n, case.n, dtype=torch.bool).tril()
        assert_close(layer(x, attn_mask=triangle), out, "causal=True differs from a triangular attn_mask")
    for now in (0, case.n // 2, case.n - 2):
        with torch.no_grad():
            changed = x.clone()
            changed[:, now + 1 :] = 100 * changed[:, now + 1 :].flip(1) + 7
            later = layer(changed, causal=True)
            message = f"tokens after position {now} change earlier outputs"
            assert_identical(later[:, : now + 1], out[:, : now + 1], message)
        inputs = x.clone().requires_grad_()
        (grad,) = torch.autograd.grad(layer(inputs, causal=True)[:, now].square().sum(), inputs)
        leak = float(grad[:, now + 1 :].abs().max())
        assert leak == 0.0, f"position {now} has gradients up to {leak:.2e} in later positions"
        assert bool((grad[:, now] != 0).any()), f"position {now} does not attend to itself under a causal mask"


def assert_key_order(case: Case) -> None:
    """The order of the keys does not matter unless the mechanism declares it. With positions it matters."""
    layer, x = case.layer(), case.x()
    if case.kind == "embed":  # the order is in the inputs
        return
    order = torch.randperm(case.m if case.crosses else case.n, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        if case.crosses:
            context = case.context()
            out, permuted = layer(x, context), layer(x, context[:, order])
        else:
            out, permuted = layer(x)[:, order], layer(x[:, order])
    if not case.cls.order_sensitive and case.kind == "none":
        assert_close(permuted, out, "the order of the keys matters, but the mechanism does not set order_sensitive")
    elif case.kind != "none":
        difference = float((permuted - out).abs().max())
        assert difference > 1e-6, f"the order of the keys does not matter: are {case.positions!r} positions ignored?"


def _fill_padding(x: Tensor, mask: Tensor, value: float) -> Tensor:
    return x.masked_fill(~mask[..., None], value)


def _run(
    layer: MultiHeadAttention, x: Tensor, context: Tensor | None, mask: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """The output, and the gradients of parameters and inputs for a loss on the positions that are not padding."""
    layer.zero_grad()
    x = x.clone().requires_grad_()
    context = None if context is None else context.clone().requires_grad_()
    out = layer(x, context, key_mask=mask)
    queries = mask if context is None else torch.ones(out.shape[:2], dtype=torch.bool)
    out[queries].square().sum().backward()
    grads = {name: p.grad for name, p in layer.named_parameters() if p.grad is not None}
    for name, inputs in (("x", x), ("context", context)):
        if inputs is not None and inputs.grad is not None:
            grads[name] = inputs.grad
    return out.detach(), grads


def _assert_same_grads(actual: dict[str, Tensor], expected: dict[str, Tensor], message: str) -> None:
    for name, grad in expected.items():
        assert_identical(actual[name], grad, f"{message}: gradient of {name}")


CHECKS = {
    "padding is invisible": assert_padding_is_invisible,
    "batch rows are independent": assert_batch_rows_are_independent,
    "future is invisible": assert_future_is_invisible,
    "key order": assert_key_order,
}
