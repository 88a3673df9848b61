"""Synthesizers equal plain loops at any positions."""

import pytest
import torch

from regard.attention.token_positions import QueryKeyPositions
from regard.errors import UserError
from regard.layers import MultiHeadAttention

B, H, N, DIM, L = 2, 3, 5, 33, 17
NAMES = ["synthesizer-dense", "synthesizer-random", "synthesizer-factorized", "synthesizer-factorized-dense"]


def build(name, **options):
    torch.manual_seed(0)
    layer = MultiHeadAttention(DIM, H, name, length=L, **options).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return layer


def logits(name, mechanism, x, i, j, h):
    """The score of a query x at position i for the key at position j, in head h, as in the paper."""
    if name == "synthesizer-random":
        return mechanism.table[h, i, j]
    if name == "synthesizer-factorized":
        return sum(a * b for a, b in zip(mechanism.query_table[h, i], mechanism.key_table[h, j], strict=True))
    u = mechanism.hidden
    rows = slice(h * u, (h + 1) * u)
    hidden = (mechanism.q.weight[rows] @ x + mechanism.q.bias[rows]).clamp(min=0)
    if name == "synthesizer-dense":
        return mechanism.table[h, j] @ hidden + mechanism.table_bias[h, j, 0]
    a, b = (hidden @ part.weight[h] + part.bias[h, 0] for part in mechanism.factors)
    long = a.repeat_interleave(len(b))[:L]  # A is repeated, B is tiled
    return (long * b.repeat(len(a))[:L])[j]


def weights_at(layer, x, q_pos, k_pos):
    mechanism = layer.mechanism
    qk_positions = QueryKeyPositions(q_pos, k_pos)
    return mechanism.score(mechanism.project_query(x, q_pos), torch.empty(len(x), H, 0, 0), qk_positions).weights()


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_the_formula_at_any_positions(name):
    layer = build(name)
    x = torch.randn(B, N, DIM).double()
    q_pos, k_pos = torch.stack([torch.randperm(L)[:N] for _ in range(B)]), torch.stack([torch.randperm(L)[:7]] * B)
    k_pos[1] = (k_pos[1] + 3) % L
    expected = torch.empty(B, H, N, 7).double()
    for b in range(B):
        for h in range(H):
            for q in range(N):
                scores = [logits(name, layer.mechanism, x[b, q], q_pos[b, q], k_pos[b, k], h) for k in range(7)]
                expected[b, h, q] = torch.stack(scores).softmax(0)
    torch.testing.assert_close(weights_at(layer, x, q_pos, k_pos), expected)


@pytest.mark.parametrize("name", NAMES)
def test_all_types_of_position_ids_agree(name):
    layer = build(name)
    x = torch.randn(B, N, DIM).double()
    q, k = range(6, 6 + N), range(2, 13)
    plain = weights_at(layer, x, q, k)
    assert plain.shape == (B, H, N, 11)
    one_q, one_k = torch.arange(6, 6 + N), torch.arange(2, 13)
    for q_pos in (q, one_q, one_q.expand(B, -1)):
        for k_pos in (k, one_k, one_k.expand(B, -1)):
            torch.testing.assert_close(weights_at(layer, x, q_pos, k_pos), plain)


@pytest.mark.parametrize("name", NAMES)
def test_weights_do_not_depend_on_the_other_tokens(name):
    layer = build(name)
    x = torch.randn(B, N, DIM).double()
    other = x.clone()
    other[:, 1:] = torch.randn(B, N - 1, DIM)
    first, second = (weights_at(layer, y, range(N), range(N)) for y in (x, other))
    torch.testing.assert_close(first[:, :, 0], second[:, :, 0], rtol=0, atol=0)
    same = torch.equal(first, second)
    assert same == (name in ("synthesizer-random", "synthesizer-factorized"))  # these ignore the input


@pytest.mark.parametrize("name", NAMES)
def test_steps_equal_one_pass_up_to_the_length(name):
    layer = build(name)
    x = torch.randn(B, L, DIM).double()
    expected = layer(x, causal=True)
    cache, outs = None, []
    for chunk in x.split([4, 1, 1, 5, 1, 5], 1):
        out, cache = layer.step(chunk, cache)
        outs.append(out)
    assert cache is not None
    assert cache.keys.shape == (B, H, L, 0)
    torch.testing.assert_close(torch.cat(outs, 1), expected)
    with pytest.raises(UserError, match=f"{name}: position 17 is out of range 0 to 16"):
        layer.step(x[:, :1], cache)


@pytest.mark.parametrize("name", NAMES)
def test_errors(name):
    layer = build(name)
    with pytest.raises(UserError, match=r"set length=18 or more, or shorten the sequence"):
        layer(torch.randn(1, 18, DIM).double())
    with pytest.raises(UserError, match="position 40 is out of range"):
        layer(torch.randn(1, 2, DIM).double(), position_ids=torch.tensor([[0, 40]]))
    with pytest.raises(UserError, match="supports self-attention only"):
        layer(torch.randn(1, 2, DIM).double(), torch.randn(1, 3, DIM).double())
    with pytest.raises(UserError, match="does not support 'rotary' positions"):
        MultiHeadAttention(12, 2, name, positions="rotary")
    with pytest.raises(UserError, match="length must be at least 1"):
        MultiHeadAttention(12, 2, name, length=0)


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name):
    torch.manual_seed(1)
    layer = MultiHeadAttention(4, 2, name, length=5).double()
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    names = [n for n, _ in layer.named_parameters()]
    values = tuple(p.detach().clone().requires_grad_() for p in layer.parameters())

    def run(x, *values):
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,), {"causal": True})

    assert torch.autograd.gradcheck(run, (x, *values))


def test_fixed_random_scores_are_saved_and_not_trained():
    layer = MultiHeadAttention(12, 2, "synthesizer-random:trained=false,length=7")
    assert "mechanism.table" in layer.state_dict()
    assert "mechanism.table" not in dict(layer.named_parameters())
    other = MultiHeadAttention(12, 2, "synthesizer-random:trained=false,length=7")
    other.load_state_dict(layer.state_dict())
    x = torch.randn(1, 7, 12)
    torch.testing.assert_close(other(x), layer(x))


def test_factorized_scores_have_the_given_rank():
    layer = build("synthesizer-factorized", rank=2)
    mechanism = layer.mechanism
    table = mechanism.query_table @ mechanism.key_table.transpose(1, 2)
    assert torch.linalg.matrix_rank(table).tolist() == [2] * H


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 16, 17, 512])
def test_factorized_dense_rows_cover_the_length(length):
    mechanism = MultiHeadAttention(12, 2, "synthesizer-factorized-dense", length=length).mechanism
    a, b = mechanism.widths
    assert a * b >= length > (a - 1) * b
    assert abs(a - b) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_scores_start_with_about_variance_one(name):
    torch.manual_seed(2)
    mechanism = MultiHeadAttention(128, 2, name, length=64).mechanism
    x = torch.randn(8, 64, 128)
    scores = mechanism.score(mechanism.project_query(x, range(64)), x, QueryKeyPositions(range(64), range(64)))
    values = scores.query @ scores.key.transpose(-2, -1) if name == "synthesizer-dense" else scores.logits
    assert 0.6 < float(values.detach().var()) < 1.5
