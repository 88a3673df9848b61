"""Large attention maps are computed in chunks without gradients: the same weights, and less memory."""

from __future__ import annotations

import pytest
import torch

from regard.attention import scores
from regard.attention.masks import Mask
from regard.attention.token_positions import QueryKeyPositions
from regard.inspect import Recording, record
from regard.layers import MultiHeadAttention


@pytest.mark.parametrize("bias_shape", [None, (1, 3, 11, 13), (2, 3, 1, 13)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("chunk", [1, 100, 200])
def test_chunks_equal_one_computation(monkeypatch, bias_shape, masked, chunk):
    torch.manual_seed(0)
    bias = None if bias_shape is None else torch.randn(bias_shape)
    query, key = torch.randn(2, 3, 11, 5), torch.randn(2, 3, 13, 5)
    dot = scores.DotScores(query, key, QueryKeyPositions(range(11), range(13)), 0.4, bias)
    mask = Mask(key_mask=torch.rand(2, 13) > 0.3, causal=True) if masked else None
    expected = dot.weights(mask)
    monkeypatch.setattr(scores, "CHUNK_WEIGHTS", chunk)
    assert torch.equal(dot.weights(mask), expected)  # with gradients there is one chunk
    with torch.no_grad():
        torch.testing.assert_close(dot.weights(mask), expected)


def test_recording_holds_the_maps_and_little_more():
    from torch.profiler import ProfilerActivity, profile

    torch.manual_seed(0)
    layer, x = MultiHeadAttention(64, 8).eval(), torch.randn(1, 512, 64)
    recordings: list[Recording] = []

    def peak_bytes(recorded: bool) -> int:
        with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            if recorded:
                with record(layer) as recording:
                    layer(x)
                recordings.append(recording)
            else:
                layer(x)
        current = peak = 0
        events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]  # type: ignore[union-attr]
        for event in sorted(events, key=lambda e: e.start_ns()):
            current += event.nbytes()
            peak = max(peak, current)
        return peak

    forward, total = peak_bytes(False), peak_bytes(True)
    maps = sum(call.weights.numel() * 4 for call in recordings[0].calls)
    assert maps == 8 * 512 * 512 * 4
    assert total - maps <= forward + 3.5 * scores.CHUNK_WEIGHTS * 4  # three buffers of one chunk, for any length
