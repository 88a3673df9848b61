"""Relative positions on an image depend on rows and columns, not on the flattened order."""

import pytest
import torch

from regard.attention.positions import build
from regard.attention.token_positions import Grid, QueryKeyPositions
from regard.layers.spatial_attention import SpatialAttention


def test_by_hand():
    encoding = build("relative-2d:clip=2", 8, 2)
    grid, rows, columns = Grid(3, 4), *encoding.tables
    result = encoding.bias(grid, grid)
    assert result.shape == (1, 2, 12, 12)
    for i in range(12):
        for j in range(12):
            dy, dx = j // 4 - i // 4, j % 4 - i % 4
            expected = rows[:, max(-2, min(2, dy)) + 2] + columns[:, max(-2, min(2, dx)) + 2]
            torch.testing.assert_close(result[0, :, i, j], expected)


def test_the_end_of_a_row_is_not_next_to_the_start_of_the_next():
    result = build("relative-2d", 8, 2).bias(Grid(4, 4), Grid(4, 4))[0]
    assert not torch.allclose(result[:, 3, 4], result[:, 0, 1])
    torch.testing.assert_close(result[:, 0, 5], result[:, 10, 15])  # one down and one to the right, anywhere


@pytest.mark.parametrize("mechanism", ["local:window=5", "local-2d:window=2"])
def test_blocks_and_tiles_equal_the_dense_bias(mechanism):
    torch.manual_seed(0)
    score = SpatialAttention(12, 3, mechanism, positions="relative-2d:clip=3").attention.mechanism.score
    grid = Grid(17, 19)
    query, key, value = (torch.randn(2, 3, len(grid), 4) for _ in range(3))
    scores = score(query, key, QueryKeyPositions(grid, grid))
    torch.testing.assert_close(scores.attend(value), scores.apply(scores.weights(), value), atol=1e-5, rtol=1e-4)
