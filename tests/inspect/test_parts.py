"""Large weights are made in parts where no gradient is wanted: the same weights, and less held while they are made."""

from __future__ import annotations

import pytest
import torch

from regard.attention import scores
from regard.attention.masks import Mask
from regard.attention.token_positions import QueryKeyPositions
from regard.inspect import record
from regard.layers import MultiHeadAttention


@pytest.mark.parametrize("bias", [None, (1, 3, 11, 13), (2, 3, 1, 13)])
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("part", [1, 100, 200])
def test_in_parts_equals_whole(monkeypatch, bias, hidden, part):
    torch.manual_seed(0)
    given = None if bias is None else torch.randn(bias)
    made = scores.DotScores(torch.randn(2, 3, 11, 5), torch.randn(2, 3, 13, 5), QueryKeyPositions(range(11), range(13)), 0.4, given)
    mask = Mask(key_mask=torch.rand(2, 13) > 0.3, causal=True) if hidden else None
    whole = made.weights(mask)
    monkeypatch.setattr(scores, "PART", part)
    assert torch.equal(made.weights(mask), whole)  # with gradients it is one piece
    with torch.no_grad():
        torch.testing.assert_close(made.weights(mask), whole)


def test_recording_holds_the_maps_and_little_more():
    from torch.profiler import ProfilerActivity, profile

    torch.manual_seed(0)
    layer, x = MultiHeadAttention(64, 8).eval(), torch.randn(1, 512, 64)

    def peak(recorded: bool) -> int:
        with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
            if recorded:
                with record(layer) as found:
                    layer(x)
                kept.append(found)
            else:
                layer(x)
        held = most = 0
        events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]  # type: ignore[union-attr]
        for event in sorted(events, key=lambda e: e.start_ns()):
            held += event.nbytes()
            most = max(most, held)
        return most

    kept: list = []
    plain, whole = peak(False), peak(True)
    maps = sum(call.weights.numel() * 4 for call in kept[0].calls)
    assert maps == 8 * 512 * 512 * 4
    assert whole - maps <= plain + 3.5 * scores.PART * 4  # three pieces of a part, whatever the length
