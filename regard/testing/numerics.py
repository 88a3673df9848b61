"""Gradients, files, traces, cost and precision: what the rest of the library builds on."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.cost import Cost
from regard.attention.mechanisms.mechanism import Mechanism
from regard.attention.positions import POSITIONS
from regard.errors import UserError
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.testing.mechanism_case import BATCH, HEADS, Case, identical, same
from regard.testing.save_load import through_a_file

KINDS = {"none", "embed", "rotate", "bias"}


def assert_complete(case: Case) -> None:
    """The class says what it is, and has every part."""
    cls = case.cls
    assert issubclass(cls, Mechanism), f"{cls} is no subclass of regard's Mechanism"
    for word in ("name", "title", "citation", "reason"):
        assert isinstance(getattr(cls, word, None), str), (
            f"{cls.__name__} has no {word}: give it a class attribute `{word} = ...`"
        )
    missing = sorted(cls.__abstractmethods__)
    assert not missing, f"{cls.__name__} does not define {', '.join(missing)}; see regard/mechanisms/base.py"
    known = "none" in cls.accepts <= KINDS
    assert known, f"{cls.__name__}.accepts is {set(cls.accepts)}; wanted 'none' and any of {KINDS}"


def assert_shapes(case: Case) -> None:
    """(b, q, dim) comes out, or the heads side by side where no matrix joins them; one query, one key, one example
    too."""
    layer = case.layer()
    width = case.dim if case.cls.output_proj else HEADS * layer.mechanism.value_width
    for b, n in ((BATCH, case.n), (1, case.n), (BATCH, 1)):
        out = layer(case.x(n, b=b))
        assert out.shape == (b, n, width), f"input {(b, n, case.dim)} gives {tuple(out.shape)}, wanted {(b, n, width)}"
        assert out.dtype == torch.float64, f"float64 in, {out.dtype} out"
    if case.cls.supports_cross_attention:
        for m in (case.m, 1):
            out = layer(case.x(), case.memory(m))
            assert out.shape == (BATCH, case.n, width), (
                f"{m} keys give {tuple(out.shape)}, wanted {(BATCH, case.n, width)}"
            )


def assert_places(case: Case) -> None:
    """Places given as a tensor, for all rows or for each, are the places given as a range."""
    layer, start = case.layer(), 4
    x, position_ids = case.x(), torch.arange(start, start + case.n)
    with torch.no_grad():
        for causal in (False, True):
            out = layer(x, position_ids=range(start, start + case.n), causal=causal)
            same(
                layer(x, position_ids=position_ids, causal=causal),
                out,
                "places in a tensor (n,) differ from the same range",
            )
            each = position_ids.expand(BATCH, -1)
            same(
                layer(x, position_ids=each, causal=causal), out, "places in a tensor (b, n) differ from the same range"
            )


def assert_gradients(case: Case) -> None:
    """Every parameter gets a gradient, finite and not zero."""
    layer, x = case.layer(), case.x()
    layer(x).square().sum().backward()
    for name, parameter in layer.named_parameters():
        if case.kind == "embed" and ".positions." in name:
            continue  # used at the model's input, not here
        assert parameter.grad is not None, f"{name} gets no gradient: it is never used"
        assert bool(parameter.grad.isfinite().all()), f"{name} gets a gradient that is not finite"
        # Rounding leaves about 1e-15 where a parameter cannot change the output at all.
        assert float(parameter.grad.abs().max()) > 1e-9, f"{name} gets a gradient of zero: it is dead"


def assert_gradcheck(case: Case) -> None:
    """Gradients are those of finite differences, in float64, with a mask."""
    layer, n = case.layer(), 5
    x = case.x(n)
    names = [name for name, p in layer.named_parameters() if not (case.kind == "embed" and ".positions." in name)]
    values = [dict(layer.named_parameters())[name].detach().clone().requires_grad_() for name in names]
    mask = torch.ones(BATCH, n, dtype=torch.bool)
    mask[1, 3:] = False

    def run(x: Tensor, *given: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(names, given, strict=True)), (x,), {"mask": mask, "causal": True})

    assert gradcheck(run, (x.requires_grad_(), *values), fast_mode=True), (
        "gradients are not those of finite differences"
    )


def assert_saved_and_loaded(case: Case) -> None:
    """Weights written as safetensors and read into a new layer give the same bits, whatever ran before."""
    layer, other, x = case.layer(), case.layer(seed=1), case.x()
    with torch.no_grad():
        out = layer(x)
        assert not torch.equal(other(x), out), "another seed gives the same layer"
        through_a_file(layer, other)
        identical(other(x), out, "a saved and loaded layer differs")
        identical(copy.deepcopy(layer)(x), out, "a copied layer differs")


def assert_traced(case: Case) -> None:
    """Traced (torch.compile, aot_eager) equals eager, forward and backward."""
    layer, x = case.layer(), case.x()
    mask = torch.ones(BATCH, case.n, dtype=torch.bool)
    mask[1, -4:] = False

    def run(x: Tensor) -> Tensor:
        return layer(x, mask=mask, causal=True)

    try:
        results = []
        for call in (run, torch.compile(run, backend="aot_eager")):
            layer.zero_grad()
            out = call(x)
            out.square().sum().backward()
            results.append((out.detach(), {name: p.grad for name, p in layer.named_parameters() if p.grad is not None}))
    finally:
        torch.compiler.reset()
    (eager, grads), (traced, traced_grads) = results
    same(traced, eager, "traced output differs from eager")
    assert traced_grads.keys() == grads.keys(), "traced and eager give gradients to other parameters"
    for name, grad in grads.items():
        same(traced_grads[name], grad, f"the traced gradient of {name} differs from the eager one")


def measured(layer: MultiHeadAttention, x: Tensor, memory: Tensor | None) -> int:
    """FLOPs of one forward pass as torch counts them, with attention unfused so that it is counted at all."""
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        layer(x, memory)
    return counter.get_total_flops()


def assert_cost(case: Case) -> None:
    """The cost card says how many parameters there are, exactly, and the FLOPs of a pass to one in a hundred."""
    layer = case.layer()
    for n, m in ((case.n, None), (case.n + 26, None), (case.n, case.m)):
        if m is not None and not case.cls.supports_cross_attention:
            continue
        card = layer.cost(n, m)
        assert isinstance(card, Cost), f"cost({n}, {m}) gives {type(card).__name__}, wanted regard.attention.cost.Cost"
        params = sum(p.numel() for p in layer.parameters())
        assert card.params == params, f"the cost card says {card.params} parameters; there are {params}"
        flops = measured(layer, case.x(n, b=1), None if m is None else case.memory(m)[:1])
        assert abs(card.flops - flops) <= 0.01 * flops, f"cost({n}, {m}) says {card.flops} FLOPs; {flops} were counted"


def assert_precision(case: Case) -> None:
    """float32 and float64 agree, and calling twice gives the same."""
    layer, x = case.layer(), case.x()
    single = copy.deepcopy(layer).float()
    with torch.no_grad():
        for causal in (False, True):
            out = layer(x, causal=causal)
            identical(layer(x, causal=causal), out, "the second call differs from the first")
            small = single(x.float(), causal=causal)
            assert small.dtype == torch.float32, f"float32 in, {small.dtype} out"
            same(small.double(), out, "float32 differs from float64", atol=2e-5)


def assert_mixed_precision(case: Case) -> None:
    """Under autocast, half precision inside, it trains and gives nearly the same."""
    layer, x = case.layer(dtype=torch.float32), case.x(dtype=torch.float32)
    mask = torch.ones(BATCH, case.n, dtype=torch.bool)
    mask[1, -4:] = False
    for causal in (False, True):
        with torch.autocast("cpu", dtype=torch.float16):
            out = layer(x, mask=mask, causal=causal)
        same(out.float(), layer(x, mask=mask, causal=causal), "half precision differs by far from float32", atol=3e-2)
        layer.zero_grad()
        out.float().square().sum().backward()
        for name, p in layer.named_parameters():
            fine = p.grad is None or bool(p.grad.isfinite().all())
            assert fine, f"{name} gets a gradient that is not finite in half precision"


def assert_positions_are_refused(case: Case) -> None:
    """Positions of a kind that the mechanism does not accept are an error, not ignored."""
    for name, kind in POSITIONS.items():
        if kind.kind in case.cls.accepts:
            continue
        try:
            Case(case.cls, name, case.options).layer()
        except UserError:
            continue
        raise AssertionError(f"{case.cls.__name__} does not accept positions that {kind.kind}, yet takes {name!r}")


CHECKS = {
    "complete": assert_complete,
    "shapes": assert_shapes,
    "places": assert_places,
    "gradients": assert_gradients,
    "gradcheck": assert_gradcheck,
    "saved and loaded": assert_saved_and_loaded,
    "precision": assert_precision,
    "mixed precision": assert_mixed_precision,
    "cost": assert_cost,
    "positions are refused": assert_positions_are_refused,
    "traced": assert_traced,
}

ONCE = {"complete", "positions are refused", "traced", "grid"}
"""Checks that need no repetition for each kind of positions."""
