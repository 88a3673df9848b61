"""ALiBi against its formula and against Hugging Face's Bloom."""

import pytest
import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor

from regard.attention.positions import build
from regard.attention.positions.alibi import alibi_slopes
from regard.attention.token_positions import Grid, QueryKeyPositions
from regard.layers import MultiHeadAttention

STRETCHES = [(range(5), range(7)), (range(6, 9), range(2, 13)), (range(9, 10), range(10))]


def test_slopes_of_the_paper():
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(1) == [2.0**-8]
    assert alibi_slopes(12)[8:] == [2.0**-0.5, 2.0**-1.5, 2.0**-2.5, 2.0**-3.5]


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 7, 8, 12, 13])
def test_equal_to_bloom_up_to_a_constant_in_each_row(heads):
    n = 11
    ours = build("alibi", 4 * heads, heads).bias(range(n), range(n))
    theirs = build_alibi_tensor(torch.ones(1, n), heads, torch.float32).view(1, heads, 1, n)
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    weights = [b.expand(1, heads, n, n).masked_fill(~causal, -torch.inf).softmax(-1) for b in (ours, theirs)]
    torch.testing.assert_close(*weights)


@pytest.mark.parametrize(("q_pos", "k_pos"), STRETCHES)
def test_all_types_of_position_ids_agree(q_pos, k_pos):
    alibi = build("alibi", 12, 3)
    result = alibi.bias(q_pos, k_pos)
    assert result.shape == (1, 3, len(q_pos), len(k_pos))
    for h in range(3):
        for i, p in enumerate(q_pos):
            for j, s in enumerate(k_pos):
                assert float(result[0, h, i, j]) == pytest.approx(-alibi_slopes(3)[h] * abs(p - s))
    q, k = torch.tensor(q_pos), torch.tensor(k_pos)
    torch.testing.assert_close(alibi.bias(q, k_pos), result)
    torch.testing.assert_close(alibi.bias(q, k), result)
    torch.testing.assert_close(alibi.bias(q.expand(2, -1), k), result.expand(2, -1, -1, -1))
    torch.testing.assert_close(alibi.bias(q_pos, k.expand(2, -1)), result.expand(2, -1, -1, -1))


def test_positions_can_differ_between_rows():
    alibi = build("alibi", 12, 3)
    q, k = torch.tensor([[0, 1], [5, 9]]), torch.tensor([[0, 1, 2], [7, 8, 9]])
    result = alibi.bias(q, k)
    torch.testing.assert_close(
        result[1], -torch.tensor(alibi_slopes(3))[:, None, None] * torch.tensor([[2, 3, 4], [2, 1, 0]])
    )


def test_a_grid_is_a_sequence():
    alibi = build("alibi", 12, 3)
    torch.testing.assert_close(alibi.bias(Grid(2, 3), Grid(2, 3)), alibi.bias(range(6), range(6)))


def test_there_are_no_parameters_and_nothing_is_saved():
    alibi = build("alibi", 12, 3)
    assert not list(alibi.parameters())
    assert not alibi.state_dict()


def test_near_keys_get_larger_weights():
    layer = MultiHeadAttention(12, 3, "dot", positions="alibi")
    with torch.no_grad():
        layer.mechanism.qkv.weight.zero_()
    mechanism = layer.mechanism
    x = torch.randn(1, 5, 12)
    keys, _ = mechanism.project_kv(x, range(5))
    weights = mechanism.score(
        mechanism.project_query(x, range(5)), keys, QueryKeyPositions(range(5), range(5))
    ).weights()
    assert (weights[:, :, 0].diff(dim=-1) < 0).all()
    assert (weights[:, :, 4].diff(dim=-1) > 0).all()
