"""Additive scores equal plain loops, with and without chunks."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.mechanisms import additive as module
from regard.attention.mechanisms.additive import additive_logits
from regard.errors import UserError
from regard.layers import MultiHeadAttention

B, H, N, M, D = 2, 3, 5, 7, 11


def by_loops(q, k, v):
    """v · tanh(q + k), one number at a time."""
    out = torch.zeros(q.shape[0], q.shape[1], q.shape[2], k.shape[2], dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(s) for s in out.shape)).tolist():
        pairs = zip(q[b, h, i].tolist(), k[b, h, j].tolist(), v[h].tolist(), strict=True)
        out[b, h, i, j] = sum(c * math.tanh(a + d) for a, d, c in pairs)
    return out


def inputs(b=B, h=H, n=N, m=M, d=D, seed=0):
    torch.manual_seed(seed)
    shapes = (b, h, n, d), (b, h, m, d), (h, d)
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]


def test_scores_are_the_formula():
    q, k, v = inputs()
    torch.testing.assert_close(additive_logits(q, k, v).detach(), by_loops(q, k, v), rtol=1e-12, atol=1e-12)


def test_large_inputs_saturate_without_nan():
    q, k, v = torch.full((1, 1, 1, 2), 1e4), torch.tensor([[[[1e4, -3e4], [-1e4, -1e4]]]]), torch.tensor([[2.0, 5.0]])
    torch.testing.assert_close(additive_logits(q, k, v), torch.tensor([[[[-3.0, 0.0]]]]))


@given(
    sizes=st.tuples(*(st.integers(1, 6) for _ in range(5))),
    chunk=st.integers(8, 4000),
    seed=st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_chunks_change_nothing(sizes, chunk, seed):
    q, k, v = inputs(*sizes, seed=seed)
    unchunked = additive_logits(q, k, v)
    weight = torch.randn_like(unchunked)
    expected = torch.autograd.grad((unchunked * weight).sum(), (q, k, v))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", chunk)
        chunked = additive_logits(q, k, v)
        actual = torch.autograd.grad((chunked * weight).sum(), (q, k, v))
    torch.testing.assert_close(chunked, unchunked)
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("chunk", [module.CHUNK, 64])
def test_gradients(chunk, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", chunk)
    assert torch.autograd.gradcheck(additive_logits, inputs(1, 2, 3, 5, 2))


def test_chunks_save_no_tensor_of_pairs(monkeypatch):
    """With chunks autograd saves less than a tenth of the tensor of pairs."""
    q, k, v = (torch.randn(s, requires_grad=True) for s in ((1, 1, 101, 64), (1, 1, 103, 64), (1, 64)))
    pairs = 101 * 103 * 64

    def saved() -> int:
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
            additive_logits(q, k, v)
        return sum(sizes)

    monkeypatch.setattr(module, "CHUNK", 10**9)
    assert saved() >= pairs
    monkeypatch.setattr(module, "CHUNK", 10**5)
    assert saved() < pairs / 10


def test_the_layer_is_the_formula_with_its_projections():
    torch.manual_seed(1)
    layer = MultiHeadAttention(33, 3, "additive:hidden=5", context_dim=13).double()
    x, context = torch.randn(2, 5, 33).double(), torch.randn(2, 7, 13).double()
    mechanism = layer.mechanism
    torch.nn.init.normal_(mechanism.q.bias)
    q = mechanism.q(x).view(2, 5, 3, 5).transpose(1, 2)
    k = (context @ mechanism.k.weight.T).view(2, 7, 3, 5).transpose(1, 2)
    v = mechanism.v(context).view(2, 7, 3, 11).transpose(1, 2)
    output = by_loops(q, k, mechanism.score_vector).softmax(-1) @ v
    torch.testing.assert_close(layer(x, context), layer.out(output.transpose(1, 2).reshape(2, 5, 33)))


def test_compiled_equals_eager():
    torch.manual_seed(2)
    layer, x = MultiHeadAttention(12, 2, "additive"), torch.randn(2, 5, 12)
    torch.testing.assert_close(torch.compile(layer, backend="aot_eager")(x), layer(x))


def test_bad_options():
    with pytest.raises(UserError, match="hidden must be at least 1"):
        MultiHeadAttention(12, 2, "additive:hidden=0")
    with pytest.raises(UserError, match="does not support 'rotary' positions"):
        MultiHeadAttention(12, 2, "additive", positions="rotary")
