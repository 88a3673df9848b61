"""A merged dot layer is equal; factored again it is equal at full rank, and otherwise the error is reported."""

import pytest
import torch
from attention_weights_of import weights_of

from regard.errors import UserError
from regard.layers import MultiHeadAttention, factor_qk, merge_qk

DIM, H, N, M = 33, 3, 5, 7


def random_layer(mechanism="dot", **options) -> MultiHeadAttention:
    """A layer with random parameters, biases included."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(DIM, H, mechanism, **options).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return layer


@pytest.mark.parametrize("positions", [None, "t5", "alibi"])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"key_width": 4}, {"context_dim": 13}])
def test_merged_attention_is_equal(positions, options):
    layer = random_layer(positions=positions, **options)
    x, context = torch.randn(2, N, DIM).double(), torch.randn(2, M, options.get("context_dim", DIM)).double()
    new = merge_qk(layer)
    assert new.mechanism.name == "merged-qk"
    torch.testing.assert_close(weights_of(new, x, context), weights_of(layer, x, context))
    torch.testing.assert_close(new(x, context), layer(x, context))
    if "context_dim" not in options:
        torch.testing.assert_close(new(x, causal=True), layer(x, causal=True))


@pytest.mark.parametrize("scaled", [False, True])
def test_a_bare_layer_can_be_merged(scaled):
    layer = random_layer("bare", key_width=5, scaled=scaled)
    x = torch.randn(2, N, DIM).double() * 0.3
    new = merge_qk(layer)
    torch.testing.assert_close(new(x), layer(x))
    assert not list(new.out.parameters())


def test_the_key_only_term_is_needed():
    layer = random_layer()
    x = torch.randn(2, N, DIM).double()
    new = merge_qk(layer)
    torch.nn.init.zeros_(new.mechanism.q.bias)
    assert (new(x) - layer(x)).abs().max() > 1e-3


def test_a_key_bias_changes_no_weight():
    layer = random_layer()
    x = torch.randn(2, N, DIM).double()
    before = weights_of(layer, x, x)
    with torch.no_grad():
        layer.mechanism.qkv.bias[DIM : 2 * DIM] += torch.randn(DIM)
    torch.testing.assert_close(weights_of(layer, x, x), before)


@pytest.mark.parametrize(("dim", "heads"), [(12, 2), (12, 3), (12, 1)])
def test_number_of_parameters(dim, heads):
    """K J² instead of 2 J² for a layer: equal at two heads."""
    dot, merged = (
        MultiHeadAttention(dim, heads, name, bias=False).mechanism.num_params() for name in ("dot", "merged-qk")
    )
    assert merged - dot == heads * dim**2 - 2 * dim**2


@pytest.mark.parametrize("bias", [False, True])
def test_factoring_a_merged_layer_at_its_rank_is_exact(bias):
    layer = random_layer(bias=bias, positions="alibi")
    x = torch.randn(2, N, DIM).double()
    back, loss = factor_qk(merge_qk(layer), 11, x=x)
    assert back.mechanism.key_width == 11
    assert max(loss.relative) < 1e-7
    assert loss.max_weight_diff is not None
    assert loss.max_weight_diff < 1e-9
    torch.testing.assert_close(back(x, causal=True), layer(x, causal=True))


def test_the_error_of_factoring_is_reported():
    layer = random_layer("merged-qk")
    x = torch.randn(2, N, DIM).double() * 0.2
    errors = []
    for rank in (3, 10, 20, 33):
        low, loss = factor_qk(layer, rank, x=x)
        again = merge_qk(low)
        for h in range(H):
            rows = slice(h * DIM, (h + 1) * DIM)
            matrices = [
                torch.cat((m.mechanism.q.weight[rows], m.mechanism.q.bias[rows, None]), 1) for m in (layer, again)
            ]
            relative = ((matrices[0] - matrices[1]).norm() / matrices[0].norm()).item()
            assert loss.relative[h] == pytest.approx(relative, abs=1e-7)
        assert loss.max_weight_diff == pytest.approx(
            (weights_of(low, x, x) - weights_of(layer, x, x)).abs().max().item()
        )
        errors.append(loss.relative[0])
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.5
    assert errors[-1] < 1e-7
    assert factor_qk(layer, 3)[1].max_weight_diff is None


def test_dtype_dropout_and_mode_are_preserved():
    layer = MultiHeadAttention(12, 2, dropout=0.25).eval()
    new = merge_qk(layer)
    assert (new.attend.dropout, new.training, new.mechanism.q.weight.dtype) == (0.25, False, torch.float32)
    assert new.out is not layer.out
    assert all(p.requires_grad for p in new.parameters())


def test_layers_that_cannot_be_merged_are_an_error():
    with pytest.raises(UserError, match="'rotary' positions cannot be merged"):
        merge_qk(MultiHeadAttention(12, 2, positions="rotary"))
    with pytest.raises(UserError, match="only 'dot' and 'bare' attention can be merged; given a layer of 'additive'"):
        merge_qk(MultiHeadAttention(12, 2, "additive"))
    with pytest.raises(UserError, match="only 'merged-qk' attention can be factored"):
        factor_qk(MultiHeadAttention(12, 2), 3)
    with pytest.raises(UserError, match="rank must be from 1 to 12 for this layer; given 13"):
        factor_qk(MultiHeadAttention(12, 2, "merged-qk"), 13)
