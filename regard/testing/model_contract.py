"""The contract of a whole model: padding and batch-mates are invisible, every parameter learns, weights go through a
file, and looking changes nothing.

    check_model(model, ids, mask)                      # model(ids, mask) gives a tensor or something with .logits
    check_model(model, ids, mask, sentences)           # further tensors (b, ...) go along
    check_model(model, ids, mask, call=lambda model, ids, mask: model(ids, mask=mask).states)
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.inspect.record import find_attention_layers, record
from regard.testing.hooks import _state
from regard.testing.mechanism_case import identical, same, watch
from regard.testing.save_load import through_a_file

Call = Callable[..., Tensor]


@dataclass
class ModelCase:
    """A model in evaluation mode, and a batch whose shorter rows end in padding. mask (b, n): True for what is real."""

    model: nn.Module
    ids: Tensor
    mask: Tensor
    others: tuple[Tensor, ...]
    call: Call
    atol: float

    def run(self, model: nn.Module | None = None, *, rows: slice = slice(None), n: int | None = None, **given: Tensor):
        """The output for these rows, cut after n places."""
        inputs = (given.get("ids", self.ids), given.get("mask", self.mask), *self.others)
        width = self.mask.shape[1]
        cut = [t[rows][:, :n] if t.dim() > 1 and t.shape[1] == width else t[rows] for t in inputs]
        return self.call(model or self.model, *cut)

    def real(self, out: Tensor, mask: Tensor) -> Tensor:
        """What counts of an output: only real places, where it speaks of places."""
        return out[mask] if out.dim() > 2 and out.shape[:2] == mask.shape else out


def default_call(model: nn.Module, *inputs: Tensor) -> Tensor:
    out: Any = model(*inputs)
    return out if isinstance(out, Tensor) else out.logits


def assert_padding_is_invisible(case: ModelCase) -> None:
    """What stands in the padding changes no bit; leaving the padding out, or adding more, changes nothing."""
    with torch.no_grad():
        out = case.real(case.run(), case.mask)
        assert bool(out.isfinite().all()), "the output is not finite"
        for turn in (1, 2):
            dirty = torch.where(case.mask, case.ids, case.ids.flatten().roll(turn * 7).view_as(case.ids))
            other = case.real(case.run(ids=dirty), case.mask)
            identical(other, out, "what stands in the padding is seen")
        for row, length in enumerate(case.mask.sum(1).tolist()):
            one = slice(row, row + 1)
            alone = case.real(case.run(rows=one, n=length), case.mask[one, :length])
            among = case.real(case.run()[one], case.mask[one])
            same(among, alone, f"row {row} with padding differs from the same without", atol=case.atol)


def assert_batch_mates_are_invisible(case: ModelCase) -> None:
    """An example gives the same in another batch."""
    with torch.no_grad():
        out = case.run()
        for row in range(len(case.ids)):
            one = slice(row, row + 1)
            alone = case.real(case.run(rows=one), case.mask[one])
            same(case.real(out[one], case.mask[one]), alone, f"row {row} sees its batch-mates", atol=case.atol)


def assert_gradients(case: ModelCase) -> None:
    """Every parameter gets a gradient, finite and not zero."""
    model = copy.deepcopy(case.model)
    out = case.real(case.run(model), case.mask)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(0)).to(out)
    (out * weights).sum().backward()
    for name, p in model.named_parameters():
        if p.requires_grad:
            assert p.grad is not None, f"{name} gets no gradient: it is never used"
            assert bool(p.grad.isfinite().all()), f"{name} gets a gradient that is not finite"
            assert bool((p.grad != 0).any()), f"{name} gets a gradient of zero: it is dead"


def assert_saved_and_loaded(case: ModelCase) -> None:
    """Weights written as safetensors and read into a model with other weights give the same bits."""
    other = copy.deepcopy(case.model)
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
        through_a_file(case.model, other)
        identical(case.run(other), case.run(), "a saved and loaded model differs")


def assert_recorded_is_read(case: ModelCase) -> None:
    """At every place where attention happens recorded weights read what was read; recording changes no bit and leaves
    nothing behind."""
    if not find_attention_layers(case.model):
        return
    before = _state(case.model)
    with torch.no_grad():
        out = case.run()
        with watch(case.model) as seen, record(case.model) as recording:
            identical(case.run(), out, "recording changes the output")
        assert len(seen) == len(recording.calls), f"{len(seen)} attention calls, {len(recording.calls)} recorded"
        for act, call in zip(seen, recording.calls, strict=True):
            read = act.scores.apply(call.weights, act.value)
            same(read, act.context, f"recorded weights at {call.layer} do not read what was read", atol=case.atol)
    missed = sorted(set(find_attention_layers(case.model)) - set(recording.layers))
    assert not missed, f"no attention happens at {', '.join(missed)}"
    assert _state(case.model) == before, "recording leaves hooks or another mode on the model"


MODEL_CHECKS: dict[str, Callable[[ModelCase], None]] = {
    "padding is invisible": assert_padding_is_invisible,
    "batch mates are invisible": assert_batch_mates_are_invisible,
    "gradients": assert_gradients,
    "saved and loaded": assert_saved_and_loaded,
    "recorded is read": assert_recorded_is_read,
}


def check_model(
    model: nn.Module, ids: Tensor, mask: Tensor, *others: Tensor, call: Call = default_call, atol: float = 1e-5
) -> None:
    """Hold a whole model to the contract, in evaluation mode; AssertionError says what broke.

    ids (b, n) or (b, n, d); mask (b, n), at least one row with padding; others (b, ...) go along with them.
    """
    assert mask.dtype == torch.bool, f"mask is bool, True for what is real; given {mask.dtype}"
    assert mask.shape == ids.shape[:2], f"mask is (b, n) like ids; given {tuple(mask.shape)}"
    assert not bool(mask.all()), "give a batch with padding in it, or padding is not tested"
    was = {module: module.training for module in model.modules()}
    case = ModelCase(model.eval(), ids, mask, others, call, atol)
    try:
        for name, check in MODEL_CHECKS.items():
            try:
                check(case)
            except AssertionError as problem:
                raise AssertionError(f"{type(model).__name__} breaks the contract ({name}): {problem}") from None
    finally:
        for module, training in was.items():
            module.training = training
