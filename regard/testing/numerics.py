"""Checks of shapes, gradients, saving, tracing, cost and precision."""

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
from regard.testing.mechanism_case import (
    BATCH,
    HEADS,
    Case,
    assert_close,
    assert_identical,
    assert_useful_gradient,
    padding_mask,
)
from regard.testing.save_load import copy_through_file

KINDS = {"none", "embed", "rotate", "bias"}


def assert_complete(case: Case) -> None:
    """The class has all attributes and methods of a mechanism."""
    cls = case.cls
    assert issubclass(cls, Mechanism), f"{cls} is not a subclass of regard's Mechanism"
    for attribute in ("name", "title", "citation", "reason"):
        assert isinstance(getattr(cls, attribute, None), str), (
            f"{cls.__name__} has no {attribute}: give it a class attribute `{attribute} = ...`"
        )
    missing = sorted(cls.__abstractmethods__)
    assert not missing, (
        f"{cls.__name__} does not define {', '.join(missing)}; see regard/attention/mechanisms/mechanism.py"
    )
    valid = "none" in cls.accepts <= KINDS
    assert valid, f"{cls.__name__}.accepts is {set(cls.accepts)}; expected 'none' and any of {KINDS}"


def assert_shapes(case: Case) -> None:
    """The output is (b, q, dim), or the concatenated heads without output matrix, for single queries and keys too."""
    layer = case.layer()
    width = case.dim if case.cls.output_proj else HEADS * layer.mechanism.value_width
    for b, n in ((BATCH, case.n), (1, case.n), (BATCH, 1)):
        out = layer(case.x(n, b=b))
        assert out.shape == (b, n, width), (
            f"input {(b, n, case.dim)} gives an output {tuple(out.shape)}, expected {(b, n, width)}"
        )
        assert out.dtype == torch.float64, f"float64 input gives {out.dtype} output"
    if case.crosses:
        for m in (case.m, 1):
            out = layer(case.x(), case.context(m))
            assert out.shape == (BATCH, case.n, width), (
                f"{m} keys give an output {tuple(out.shape)}, expected {(BATCH, case.n, width)}"
            )


def assert_position_ids(case: Case) -> None:
    """Positions as a tensor (n,) or (b, n) give the same as a range."""
    layer, start = case.layer(), 4
    x, position_ids = case.x(), torch.arange(start, start + case.n)
    with torch.no_grad():
        for causal in (False, True):
            expected = layer(x, position_ids=range(start, start + case.n), causal=causal)
            for shape, ids in (("(n,)", position_ids), ("(b, n)", position_ids.expand(BATCH, -1))):
                out = layer(x, position_ids=ids, causal=causal)
                assert_close(out, expected, f"position_ids as a tensor {shape} differ from the same range")


def assert_gradients(case: Case) -> None:
    """Every parameter gets a gradient that is finite and not zero."""
    layer, x = case.layer(), case.x()
    layer(x).square().sum().backward()
    for name, parameter in layer.named_parameters():
        if case.kind == "embed" and ".positions." in name:
            continue  # used at the model's input, not here
        # Rounding leaves about 1e-15 where a parameter cannot change the output at all.
        assert_useful_gradient(name, parameter.grad, minimum=1e-9)


def assert_gradcheck(case: Case) -> None:
    """Gradients equal finite differences, in float64, with masks."""
    layer, n = case.layer(), 5
    x = case.x(n)
    names = [name for name, p in layer.named_parameters() if not (case.kind == "embed" and ".positions." in name)]
    values = [dict(layer.named_parameters())[name].detach().clone().requires_grad_() for name in names]
    masks = {"key_mask": padding_mask(n, 2), "causal": True}

    def run(x: Tensor, *parameters: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(names, parameters, strict=True)), (x,), masks)

    assert gradcheck(run, (x.requires_grad_(), *values), fast_mode=True), "gradients differ from finite differences"


def assert_save_and_load(case: Case) -> None:
    """Saved weights, loaded into a new layer, give the same bits."""
    layer, other, x = case.layer(), case.layer(seed=1), case.x()
    with torch.no_grad():
        out = layer(x)
        assert not torch.equal(other(x), out), "another seed gives the same layer"
        copy_through_file(layer, other)
        assert_identical(other(x), out, "a saved and loaded layer differs")
        assert_identical(copy.deepcopy(layer)(x), out, "a copied layer differs")


def assert_traced(case: Case) -> None:
    """A compiled layer (torch.compile, aot_eager) equals the eager one, forward and backward."""
    layer, x = case.layer(), case.x()
    mask = padding_mask(case.n, 4)

    def run(x: Tensor) -> Tensor:
        return layer(x, key_mask=mask, causal=True)

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
    assert_close(traced, eager, "the traced output differs from the eager one")
    assert traced_grads.keys() == grads.keys(), "traced and eager code give gradients to different parameters"
    for name, grad in grads.items():
        assert_close(traced_grads[name], grad, f"the traced gradient of {name} differs from the eager one")


def count_flops(layer: MultiHeadAttention, x: Tensor, context: Tensor | None) -> int:
    """FLOPs of a forward pass, counted by torch. Fused attention is not counted, so it is switched off."""
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        layer(x, context)
    return counter.get_total_flops()


def assert_cost(case: Case) -> None:
    """`cost` gives the exact number of parameters, and the FLOPs of a forward pass within 1 %."""
    layer = case.layer()
    for n, m in ((case.n, None), (case.n + 26, None), (case.n, case.m)):
        if m is not None and not case.crosses:
            continue
        cost = layer.cost(n, m)
        assert isinstance(cost, Cost), f"cost({n}, {m}) is a {type(cost).__name__}, expected regard.attention.cost.Cost"
        params = sum(p.numel() for p in layer.parameters())
        assert cost.params == params, f"cost gives {cost.params} parameters; there are {params}"
        flops = count_flops(layer, case.x(n, b=1), None if m is None else case.context(m)[:1])
        assert abs(cost.flops - flops) <= 0.01 * flops, f"cost({n}, {m}) gives {cost.flops} FLOPs; counted: {flops}"


def assert_precision(case: Case) -> None:
    """float32 and float64 agree, and a second call gives the same bits."""
    layer, x = case.layer(), case.x()
    single = copy.deepcopy(layer).float()
    with torch.no_grad():
        for causal in (False, True):
            out = layer(x, causal=causal)
            assert_identical(layer(x, causal=causal), out, "the second call differs from the first")
            single_out = single(x.float(), causal=causal)
            assert single_out.dtype == torch.float32, f"float32 input gives {single_out.dtype} output"
            assert_close(single_out.double(), out, "float32 differs from float64", atol=2e-5)


def assert_mixed_precision(case: Case) -> None:
    """Under autocast to float16 the output is close to that in float32, and gradients are finite."""
    layer, x = case.layer(dtype=torch.float32), case.x(dtype=torch.float32)
    mask = padding_mask(case.n, 4)
    for causal in (False, True):
        with torch.autocast("cpu", dtype=torch.float16):
            out = layer(x, key_mask=mask, causal=causal)
        expected = layer(x, key_mask=mask, causal=causal)
        assert_close(out.float(), expected, "float16 differs too much from float32", atol=3e-2)
        layer.zero_grad()
        out.float().square().sum().backward()
        for name, p in layer.named_parameters():
            finite = p.grad is None or bool(p.grad.isfinite().all())
            assert finite, f"the gradient of {name} is not finite in float16"


def assert_unsupported_positions_raise(case: Case) -> None:
    """Positions of a kind that the mechanism does not accept raise UserError."""
    for name, kind in POSITIONS.items():
        if kind.kind in case.cls.accepts:
            continue
        try:
            Case(case.cls, name, case.options).layer()
        except UserError:
            continue
        raise AssertionError(
            f"{case.cls.__name__} does not accept positions of kind {kind.kind!r}, but {name!r} raises no error"
        )


CHECKS = {
    "complete": assert_complete,
    "shapes": assert_shapes,
    "position ids": assert_position_ids,
    "gradients": assert_gradients,
    "gradcheck": assert_gradcheck,
    "save and load": assert_save_and_load,
    "precision": assert_precision,
    "mixed precision": assert_mixed_precision,
    "cost": assert_cost,
    "unsupported positions raise": assert_unsupported_positions_raise,
    "traced": assert_traced,
}

ONCE = {"complete", "unsupported positions raise", "traced", "grid"}
"""Checks that run for one kind of positions only."""
