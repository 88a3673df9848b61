"""Checks of `record` and `edit`: recorded weights give the output, edits do what they say, and no hook is left."""

from __future__ import annotations

from contextlib import suppress

import torch
from torch import Tensor, nn

from regard.attention.mechanisms.mechanism import merge_heads
from regard.attention.token_positions import Grid
from regard.errors import UserError
from regard.inspect.edit import _EDITS, ablate, edit, mask_keys, uniform
from regard.inspect.record import record
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.testing.attention_weights import masks, settings
from regard.testing.mechanism_case import (
    BATCH,
    Case,
    assert_close,
    assert_identical,
    capture_calls,
    noise,
    padding_mask,
)

ATTEND = "attend"


def assert_recorded_weights_give_output(case: Case) -> None:
    """Recorded weights applied to the values equal the layer's output. Recording changes no bit of it."""
    for setting, layer, x, context, k in settings(case):
        with torch.no_grad():
            for name, mask, _ in (("no mask", {}, None), *masks(case.n, k)):
                expected = layer(x, context, **mask)
                with capture_calls(layer) as calls, record(layer) as recording:
                    out = layer(x, context, **mask)
                call, where = calls[0], f"in {setting} with {name}"
                assert_identical(out, expected, f"recording changes the output {where}")
                applied = call.scores.apply(recording[ATTEND], call.value)
                assert_close(applied, call.output, f"recorded weights do not give the output of attention {where}")
                projected = layer.out(merge_heads(applied))
                assert_close(projected, out, f"recorded weights times values are not the output {where}")
                again = call.scores.weights(call.mask)
                assert_identical(recording[ATTEND], again, f"a second call of weights() differs {where}")


def assert_grid(case: Case) -> None:
    """Recorded weights give the output over an image too, for every mechanism that supports images."""
    layer, grid = case.layer(), Grid(17, 19)
    x = case.embed(noise(BATCH, len(grid), case.dim, seed=1), grid)
    try:
        with torch.no_grad():
            layer(x, position_ids=grid)
    except UserError:
        return
    with torch.no_grad():
        for name, mask, _ in (("no mask", {}, None), *masks(len(grid), len(grid))):
            with capture_calls(layer) as calls, record(layer) as recording:
                layer(x, position_ids=grid, **mask)
            applied = calls[0].scores.apply(recording[ATTEND], calls[0].value)
            assert_close(applied, calls[0].output, f"recorded weights do not give the output over an image with {name}")


def assert_edits(case: Case) -> None:
    """ablate, uniform and mask_keys give the same result as the change by hand."""
    for setting, layer, x, context, k in settings(case):
        keys = padding_mask(k, 3)
        with torch.no_grad(), capture_calls(layer) as calls:
            layer(x, context, key_mask=keys)
            pairs = torch.ones(case.n, k, dtype=torch.bool)
            pairs[..., [2, 5]] = False
            layer(x, context, key_mask=keys, attn_mask=pairs)
            first, masked = calls
            weights = first.scores.weights(first.mask)
        ablated = first.output.clone()
        ablated[:, 1] = 0
        support = (weights > 0).to(weights.dtype)
        level = support / support.sum(-1, keepdim=True).clamp(min=1)
        zeroed = weights.clone()
        zeroed[..., [2, 5]] = 0
        edits = {
            "ablate([1])": (ablate([1]), ablated),
            "uniform()": (uniform(), first.scores.apply(level, first.value)),
            "mask_keys([2, 5])": (mask_keys([2, 5]), masked.output),
            "mask_keys([2, 5], renormalize=False)": (
                mask_keys([2, 5], renormalize=False),
                first.scores.apply(zeroed, first.value),
            ),
        }
        for name, (change, output) in edits.items():
            with torch.no_grad(), edit(layer, ATTEND, change), record(layer) as recording:
                out = layer(x, context, key_mask=keys)
            expected = layer.out(merge_heads(output))
            assert_close(out, expected, f"{name} differs from the same change by hand in {setting}")
            applied = layer.out(merge_heads(first.scores.apply(recording[ATTEND], first.value)))
            assert_close(applied, out, f"weights recorded under {name} do not give the output in {setting}")


def assert_no_hooks_are_left(case: Case) -> None:
    """After a call, `record` or `edit`, even after an exception, no hook is left and the layer is unchanged."""
    layer, x = case.layer().train(), case.x()
    state, expected = module_state(layer), layer(x)

    def assert_unchanged(action: str) -> None:
        assert module_state(layer) == state, f"{action} leaves hooks, attributes or another mode on the layer"
        assert_identical(layer(x), expected, f"{action} changes later outputs of the layer")

    assert_unchanged("a call")
    with record(layer):
        layer(x)
    assert_unchanged("record")
    with edit(layer, ATTEND, ablate([0])):
        layer(x)
    assert_unchanged("edit")
    with suppress(_InterruptedError), record(layer), edit(layer, ATTEND, uniform()):
        layer(x)
        raise _InterruptedError
    assert_unchanged("an exception while recording")
    assert not any(_EDITS.get(m) for m in layer.modules()), "edits are still active"  # type: ignore[arg-type]


class _InterruptedError(Exception):
    pass


def module_state(layer: nn.Module) -> dict[str, tuple]:
    """Mode and hooks of every submodule."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        name: (module.training, *(tuple(getattr(module, kind)) for kind in hooks))
        for name, module in layer.named_modules()
    }


def assert_dropout_is_off_while_recording(case: Case) -> None:
    """Dropout is on in training, off while recording, and on again afterwards. It acts on the weights only."""
    layer, x = case.layer(dropout=0.5), case.x()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        without_dropout = layer(x)
        layer.train()
        assert not torch.equal(layer(x), without_dropout), "dropout does nothing in training"
        with record(layer):
            out = layer(x)
        assert_close(out, without_dropout, "dropout is on while recording")
        assert all(m.training for m in layer.modules()), "recording leaves the layer in evaluation mode"
        assert not torch.equal(layer(x), without_dropout), "dropout stays off after recording"
        with capture_calls(layer) as calls:
            torch.manual_seed(0)
            layer(x)
        torch.manual_seed(0)
        dropped = _drop(calls[0].scores.weights(), layer)
        output = calls[0].scores.apply(dropped, calls[0].value)
        assert_close(output, calls[0].output, "dropout acts on more than the weights")


def _drop(weights: Tensor, layer: MultiHeadAttention) -> Tensor:
    return nn.functional.dropout(weights, layer.attend.dropout)


CHECKS = {
    "recorded weights give the output": assert_recorded_weights_give_output,
    "grid": assert_grid,
    "edits": assert_edits,
    "no hooks are left": assert_no_hooks_are_left,
    "dropout is off while recording": assert_dropout_is_off_while_recording,
}
