"""The bare layer equals its equations, and the standard layer without biases and output matrix."""

import pytest
import torch

from regard.layers import MultiHeadAttention

T, J, K, U = 5, 33, 3, 7
I = J // K


@pytest.mark.parametrize("scaled", [False, True])
def test_it_equals_the_equations_of_the_course(scaled):
    torch.manual_seed(0)
    layer = MultiHeadAttention(J, K, "bare", key_width=U, scaled=scaled).double()
    mechanism = layer.mechanism
    w_q, w_k = mechanism.q.weight.view(K, U, J), mechanism.kv.weight[: K * U].view(K, U, J)
    w_v = mechanism.kv.weight[K * U :].view(K, I, J)
    h_in = torch.randn(2, T, J).double()
    out = torch.empty(2, T, J).double()
    for b in range(2):
        for k in range(K):
            for t in range(T):
                scores = torch.stack([(w_q[k] @ h_in[b, t]) @ (w_k[k] @ h_in[b, s]) for s in range(T)])
                alpha = (scores / U**0.5 if scaled else scores).softmax(0)
                out[b, t, k * I : (k + 1) * I] = sum(alpha[s] * (w_v[k] @ h_in[b, s]) for s in range(T))
    torch.testing.assert_close(layer(h_in), out)


def test_no_bias_and_no_output_matrix():
    layer = MultiHeadAttention(J, K, "bare", key_width=U)
    assert sum(p.numel() for p in layer.parameters()) == 2 * K * U * J + K * I * J


def test_scaled_it_equals_a_standard_layer_without_bias_and_output():
    torch.manual_seed(1)
    bare = MultiHeadAttention(J, K, "bare", key_width=U, scaled=True)
    general = MultiHeadAttention(J, K, "dot", key_width=U, bias=False, output_proj=False)
    with torch.no_grad():
        general.mechanism.qkv.weight.copy_(torch.cat((bare.mechanism.q.weight, bare.mechanism.kv.weight)))
    x = torch.randn(2, T, J)
    torch.testing.assert_close(bare(x, causal=True), general(x, causal=True))


def test_a_context_of_another_width():
    layer = MultiHeadAttention(J, K, "bare", key_width=U, context_dim=13)
    assert layer(torch.randn(2, T, J), torch.randn(2, 11, 13)).shape == (2, T, J)


def test_gradients():
    layer = MultiHeadAttention(4, 2, "bare", key_width=3).double()
    assert torch.autograd.gradcheck(layer, torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True))
