"""The contract of a whole model: padding and other rows have no influence, every parameter gets a gradient, weights can
be saved and loaded, and recorded attention gives the output.

    check_model(model, ids, mask)                      # model(ids, mask) returns a tensor, or an object with .logits
    check_model(model, ids, mask, sentences)           # further tensors (b, ...) are passed on
    check_model(model, ids, mask, call=lambda model, ids, mask: model(ids, mask=mask).states)
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.scores import Attend
from regard.inspect.record import find_attention_layers, record
from regard.testing.hooks import module_state
from regard.testing.mechanism_case import assert_close, assert_identical, assert_useful_gradient, capture_calls
from regard.testing.save_load import copy_through_file

Call = Callable[..., Tensor]


@dataclass
class ModelCase:
    """A model in evaluation mode, and a batch with padding at the end of shorter rows.

    Args:
        model: The model.
        ids: Token ids (b, n), or vectors (b, n, d).
        mask: False for padding, (b, n) bool.
        others: Further inputs, (b, ...).
        call: Runs the model on the inputs.
        atol: Tolerance for outputs at different shapes.
    """

    model: nn.Module
    ids: Tensor
    mask: Tensor
    others: tuple[Tensor, ...]
    call: Call
    atol: float

    def run(
        self,
        model: nn.Module | None = None,
        *,
        ids: Tensor | None = None,
        rows: slice = slice(None),
        n: int | None = None,
    ) -> Tensor:
        """The output for these rows, truncated to n tokens."""
        inputs = (self.ids if ids is None else ids, self.mask, *self.others)
        width = self.mask.shape[1]
        truncated = [t[rows][:, :n] if t.dim() > 1 and t.shape[1] == width else t[rows] for t in inputs]
        return self.call(model or self.model, *truncated)

    def drop_padding(self, out: Tensor, mask: Tensor) -> Tensor:
        """The part of an output that is not about padding tokens."""
        return out[mask] if out.dim() > 2 and out.shape[:2] == mask.shape else out


def default_call(model: nn.Module, *inputs: Tensor) -> Tensor:
    out: Any = model(*inputs)
    return out if isinstance(out, Tensor) else out.logits


def assert_padding_is_invisible(case: ModelCase) -> None:
    """Token ids in the padding change no bit. Without padding the output is the same."""
    with torch.no_grad():
        out = case.drop_padding(case.run(), case.mask)
        assert bool(out.isfinite().all()), "the output is not finite"
        for shift in (7, 14):
            other_ids = torch.where(case.mask, case.ids, case.ids.flatten().roll(shift).view_as(case.ids))
            other = case.drop_padding(case.run(ids=other_ids), case.mask)
            assert_identical(other, out, "token ids in the padding change the output")
        for i, length in enumerate(case.mask.sum(1).tolist()):
            row = slice(i, i + 1)
            unpadded = case.drop_padding(case.run(rows=row, n=length), case.mask[row, :length])
            padded = case.drop_padding(case.run()[row], case.mask[row])
            assert_close(padded, unpadded, f"row {i} with padding differs from the same without", atol=case.atol)


def assert_batch_rows_are_independent(case: ModelCase) -> None:
    """The output of a row does not depend on other rows of the batch."""
    with torch.no_grad():
        out = case.run()
        for i in range(len(case.ids)):
            row = slice(i, i + 1)
            alone = case.drop_padding(case.run(rows=row), case.mask[row])
            message = f"other rows of the batch change row {i}"
            assert_close(case.drop_padding(out[row], case.mask[row]), alone, message, atol=case.atol)


def assert_gradients(case: ModelCase) -> None:
    """Every parameter gets a gradient that is finite and not zero."""
    model = copy.deepcopy(case.model)
    out = case.drop_padding(case.run(model), case.mask)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(0)).to(out)
    (out * weights).sum().backward()
    for name, p in model.named_parameters():
        if p.requires_grad:
            assert_useful_gradient(name, p.grad)


def assert_save_and_load(case: ModelCase) -> None:
    """Saved weights, loaded into a model with other weights, give the same bits."""
    other = copy.deepcopy(case.model)
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
        copy_through_file(case.model, other)
        assert_identical(case.run(other), case.run(), "a saved and loaded model differs")


def assert_recorded_weights_give_output(case: ModelCase) -> None:
    """In every attention layer the recorded weights applied to the values give the output of attention.

    Recording changes no bit of the model's output and leaves no hook.
    """
    layers = find_attention_layers(case.model)
    if not layers:
        return
    state = module_state(case.model)
    with torch.no_grad():
        out = case.run()
        with capture_calls(case.model) as calls, record(case.model) as recording:
            assert_identical(case.run(), out, "recording changes the output")
        records = [call for call in recording.calls if isinstance(layers[call.layer], Attend)]
        assert len(calls) == len(records), f"{len(calls)} attention calls, {len(records)} recorded"
        for call, recorded in zip(calls, records, strict=True):
            applied = call.scores.apply(recorded.weights, call.value)
            message = f"weights recorded at {recorded.layer} do not give the output"
            assert_close(applied, call.output, message, atol=case.atol)
    missing = sorted(set(layers) - set(recording.layers))
    assert not missing, f"no attention was recorded at {', '.join(missing)}"
    assert module_state(case.model) == state, "recording leaves hooks or another mode on the model"


MODEL_CHECKS: dict[str, Callable[[ModelCase], None]] = {
    "padding is invisible": assert_padding_is_invisible,
    "batch rows are independent": assert_batch_rows_are_independent,
    "gradients": assert_gradients,
    "save and load": assert_save_and_load,
    "recorded weights give the output": assert_recorded_weights_give_output,
}


def check_model(
    model: nn.Module, ids: Tensor, mask: Tensor, *others: Tensor, call: Call = default_call, atol: float = 1e-5
) -> None:
    """Check that a model fulfills the contract, in evaluation mode. AssertionError says what failed.

    Args:
        model: The model.
        ids: Token ids (b, n), or vectors (b, n, d).
        mask: False for padding, (b, n) bool. At least one row must have padding.
        *others: Further inputs, (b, ...).
        call: Maps model and inputs to a tensor. Default: the output, or its attribute `logits`.
        atol: Tolerance where shapes differ.
    """
    assert mask.dtype == torch.bool, f"mask must be a bool tensor with False for padding; given {mask.dtype}"
    assert mask.shape == ids.shape[:2], f"mask must be (b, n) like ids; given {tuple(mask.shape)}"
    assert not bool(mask.all()), "the batch has no padding; give at least one row with padding"
    modes = {module: module.training for module in model.modules()}
    case = ModelCase(model.eval(), ids, mask, others, call, atol)
    try:
        for name, check in MODEL_CHECKS.items():
            try:
                check(case)
            except AssertionError as error:
                raise AssertionError(f"{type(model).__name__} breaks the contract ({name}): {error}") from None
    finally:
        for module, training in modes.items():
            module.training = training
