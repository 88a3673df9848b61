"""Looking must be true and leave nothing behind: what is recorded is what was read, and edits do what they say."""

from __future__ import annotations

from contextlib import suppress

import torch
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.mechanisms.mechanism import merge_heads
from regard.attention.token_positions import Grid
from regard.errors import UserError
from regard.inspect.edit import _EDITS, ablate, edit, mask_keys, uniform
from regard.inspect.record import record
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.testing.attention_weights import masks, settings
from regard.testing.mechanism_case import BATCH, Case, identical, noise, same, watch

SITE = "attend"


def assert_recorded_is_read(case: Case) -> None:
    """Recorded weights, read through the scores, are the layer's output; and recording changes no bit of it."""
    for where, layer, x, memory, k in settings(case):
        with torch.no_grad():
            for name, mask in [("none", None), *((name, mask) for name, mask, _ in masks(case.n, k))]:
                before = layer(x, memory, mask=mask)
                with watch(layer) as seen, record(layer) as recording:
                    out = layer(x, memory, mask=mask)
                what = f"over {where}, mask {name}"
                identical(out, before, f"recording changes the output {what}")
                read = seen[0].scores.apply(recording[SITE], seen[0].value)
                same(read, seen[0].context, f"recorded weights do not read what attention read {what}")
                same(layer.out(merge_heads(read)), out, f"recorded weights times values are not the output {what}")
                again = seen[0].scores.weights(seen[0].mask)
                identical(recording[SITE], again, f"weights() is not pure: a second call differs {what}")


def assert_grid(case: Case) -> None:
    """The same over a picture, for every mechanism that is defined for one."""
    layer, grid = case.layer(), Grid(17, 19)
    x = case.placed(noise(BATCH, len(grid), case.dim, seed=1), grid)
    try:
        with torch.no_grad():
            layer(x, position_ids=grid)
    except UserError:
        return
    with torch.no_grad():
        for name, mask, _ in (("none", None, None), *masks(len(grid), len(grid))):
            with watch(layer) as seen, record(layer) as recording:
                layer(x, mask=mask, position_ids=grid)
            read = seen[0].scores.apply(recording[SITE], seen[0].value)
            same(
                read, seen[0].context, f"recorded weights do not read what attention read, over a picture, mask {name}"
            )


def assert_edits(case: Case) -> None:
    """ablate, uniform and mask_keys give what the same change by hand gives."""
    for where, layer, x, memory, k in settings(case):
        keys = torch.ones(x.shape[0], k, dtype=torch.bool)
        keys[1, k - 3 :] = False
        mask = Mask(key_mask=keys)
        with torch.no_grad(), watch(layer) as seen:
            layer(x, memory, mask=mask)
            one = seen[0]
            weights = one.scores.weights(one.mask)
            silent = one.context.clone()
            silent[:, 1] = 0
            support = (weights > 0).to(weights.dtype)
            level = support / support.sum(-1, keepdim=True).clamp(min=1)
            left = weights.clone()
            left[..., [2, 5]] = 0
            pairs = torch.ones(1, 1, case.n, k, dtype=torch.bool)
            pairs[..., [2, 5]] = False
            layer(x, memory, mask=Mask(keys, pairs))
        read = {
            "ablate([1])": (ablate([1]), silent),
            "uniform()": (uniform(), one.scores.apply(level, one.value)),
            "mask_keys([2, 5])": (mask_keys([2, 5]), seen[1].context),
            "mask_keys([2, 5], renormalize=False)": (mask_keys([2, 5], renormalize=False), one.scores.apply(left, one.value)),
        }
        for name, (change, context) in read.items():
            with torch.no_grad(), edit(layer, SITE, change), record(layer) as recording:
                out = layer(x, memory, mask=mask)
            wanted = layer.out(merge_heads(context))
            same(out, wanted, f"{name} over {where} does not give what the same change by hand gives")
            read_again = layer.out(merge_heads(one.scores.apply(recording[SITE], one.value)))
            same(read_again, out, f"what is recorded under {name} over {where} is not what was read")


def assert_nothing_is_left(case: Case) -> None:
    """After a call, a recording or an edit, also one that broke off, no hook is left and the layer is as it was."""
    layer, x = case.layer().train(), case.x()
    before, start = _state(layer), layer(x)

    def unchanged(what: str) -> None:
        assert _state(layer) == before, f"{what} leaves hooks, attributes or another mode on the layer"
        identical(layer(x), start, f"{what} changes what the layer gives afterwards")

    unchanged("a call")
    with record(layer):
        layer(x)
    unchanged("record")
    with edit(layer, SITE, ablate([0])):
        layer(x)
    unchanged("edit")
    with suppress(_Break), record(layer), edit(layer, SITE, uniform()):
        layer(x)
        raise _Break
    unchanged("a recording that broke off")
    assert not any(_EDITS.get(m) for m in layer.modules()), "edits stay in force"  # type: ignore[arg-type]


class _Break(Exception):
    pass


def _state(layer: nn.Module) -> dict[str, tuple]:
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        name: (module.training, *(tuple(getattr(module, kind)) for kind in hooks))
        for name, module in layer.named_modules()
    }


def assert_dropout_is_off_while_recording(case: Case) -> None:
    """Dropout is at work in training, off while recording, and on again after."""
    layer, x = case.layer(dropout=0.5), case.x()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        quiet = layer(x)
        layer.train()
        assert not torch.equal(layer(x), quiet), "dropout does nothing in training"
        with record(layer):
            out = layer(x)
        same(out, quiet, "dropout is on while recording")
        assert all(m.training for m in layer.modules()), "recording leaves the layer out of training mode"
        assert not torch.equal(layer(x), quiet), "dropout stays off after recording"
        with watch(layer) as seen:
            torch.manual_seed(0)
            out = layer(x)
        torch.manual_seed(0)
        dropped = _dropped(seen[0].scores.weights(), layer)
        same(seen[0].scores.apply(dropped, seen[0].value), seen[0].context, "dropout acts on more than the weights")


def _dropped(weights: Tensor, layer: MultiHeadAttention) -> Tensor:
    return nn.functional.dropout(weights, layer.attend.dropout)


CHECKS = {
    "recorded is read": assert_recorded_is_read,
    "grid": assert_grid,
    "edits": assert_edits,
    "nothing is left": assert_nothing_is_left,
    "dropout is off while recording": assert_dropout_is_off_while_recording,
}
