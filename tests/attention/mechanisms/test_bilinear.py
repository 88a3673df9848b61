"""Bilinear and merged query-key scores equal plain loops."""

import pytest
import torch
from attention_weights_of import weights_of

from regard.attention.masks import Mask
from regard.attention.token_positions import QueryKeyPositions
from regard.errors import UserError
from regard.layers import MultiHeadAttention

H, N, M, DIM, OTHER = 3, 5, 7, 33, 13


def by_loops(w, u, x, context):
    """softmax of xᵀ W_h m + u_h · m, pair by pair; w (h, dim, context_dim)."""
    logits = torch.empty(x.shape[0], w.shape[0], x.shape[1], context.shape[1], dtype=x.dtype)
    for b in range(x.shape[0]):
        for h in range(w.shape[0]):
            for i in range(x.shape[1]):
                for j in range(context.shape[1]):
                    logits[b, h, i, j] = x[b, i] @ w[h] @ context[b, j] + u[h] @ context[b, j]
    return logits.softmax(-1)


@pytest.mark.parametrize("name", ["bilinear", "merged-qk", "merged-qk:key_bias=false"])
def test_weights_are_the_formula(name):
    torch.manual_seed(0)
    layer = MultiHeadAttention(DIM, H, name, context_dim=OTHER).double()
    x, context = torch.randn(2, N, DIM).double() * 5, torch.randn(2, M, OTHER).double()
    w = layer.mechanism.q.weight.view(H, OTHER, DIM).transpose(1, 2)
    bias = layer.mechanism.q.bias
    assert (bias is not None) == (name == "merged-qk")
    if bias is not None:
        torch.nn.init.normal_(bias)
    u = torch.zeros(H, OTHER).double() if bias is None else bias.view(H, OTHER)
    torch.testing.assert_close(weights_of(layer, x, context), by_loops(w, u, x, context))


def test_seed_form_reads_the_memory_itself():
    """α = softmax_t h W^key M[t],  V = Σ_t α[t] M[t]."""
    torch.manual_seed(1)
    layer = MultiHeadAttention(11, 1, "bilinear:values=false", context_dim=OTHER, output_proj=False).double()
    h, context = torch.randn(2, 1, 11).double(), torch.randn(2, M, OTHER).double()
    w_key = layer.mechanism.q.weight.T  # (dim, context_dim)
    alpha = torch.einsum("bi,ij,btj->bt", h[:, 0], w_key, context).softmax(-1)
    torch.testing.assert_close(layer(h, context)[:, 0], torch.einsum("bt,btj->bj", alpha, context))
    assert sum(p.numel() for p in layer.parameters()) == 11 * OTHER


@pytest.mark.parametrize("name", ["bilinear", "merged-qk"])
@pytest.mark.parametrize("value_width", [None, 12])
def test_with_mask_and_bias_both_kinds_of_scores_read_what_the_weights_say(name, value_width):
    """value_width=12 is the context's own width: the fused way; None leaves it."""
    torch.manual_seed(2)
    layer = MultiHeadAttention(12, 3, name, value_width=value_width, positions="alibi").double()
    x = torch.randn(2, N, 12).double()
    keep = torch.ones(2, N, dtype=torch.bool)
    keep[1, 3:] = False
    weights = weights_of(layer, x, x, Mask(key_mask=keep, causal=True))
    assert (weights[1, :, :, 3:] == 0).all()
    values = layer.mechanism.project_kv(x, range(N))[1]
    expected = layer.out((weights @ values).transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x, key_mask=keep, causal=True)[keep], expected[keep])


@pytest.mark.parametrize("name", ["bilinear", "merged-qk"])
def test_scores_start_with_variance_one(name):
    torch.manual_seed(3)
    layer = MultiHeadAttention(128, 2, name, context_dim=48)
    x, context = torch.randn(4, 50, 128), torch.randn(4, 60, 48)
    mechanism = layer.mechanism
    scores = mechanism.score(
        mechanism.project_query(x, range(50)), context[:, None], QueryKeyPositions(range(50), range(60))
    )
    assert 0.9 < float(scores.logits.detach().var()) < 1.1


@pytest.mark.parametrize("name", ["bilinear", "bilinear:values=false", "merged-qk"])
def test_gradients(name):
    torch.manual_seed(4)
    heads = 1 if "false" in name else 2
    layer = MultiHeadAttention(4, heads, name, context_dim=3).double()
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    context = torch.randn(1, 5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, m: layer(a, m), (x, context))


def test_cached_keys_are_the_memory_once_for_all_heads():
    layer = MultiHeadAttention(12, 3, "merged-qk")
    context = layer.project_kv(torch.randn(2, M, 12))
    assert context.keys.shape == (2, 1, M, 12)


def test_reading_the_memory_itself_wants_one_head():
    with pytest.raises(UserError, match=r"one head of width 12; given 3 heads"):
        MultiHeadAttention(12, 3, "bilinear:values=false")
    with pytest.raises(UserError, match=r"one head of width 12; given 1 heads of width 5"):
        MultiHeadAttention(12, 1, "bilinear:values=false", value_width=5)
