"""The seam by hand: numbers that a person can redo; and equality with torch.nn's attention and layers."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.attention.cost import Cost
from regard.attention.masks import Mask
from regard.attention.mechanisms import MECHANISMS
from regard.attention.mechanisms.dot import DotMechanism
from regard.attention.positions import POSITIONS
from regard.attention.scores import Attend, DenseScores, DotScores, masked_softmax
from regard.attention.token_positions import QueryKeyPositions
from regard.errors import UserError
from regard.inspect import record
from regard.layers import (
    AttentionPooling,
    BidirectionalRNN,
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    hop_penalty,
)
from regard.layers.bidirectional_rnn import reverse_padded

LN2, LN3 = math.log(2), math.log(3)


def plain(layer: MultiHeadAttention) -> MultiHeadAttention:
    """Projections that change nothing: queries, keys and values are the inputs themselves."""
    dim = layer.mechanism.dim
    with torch.no_grad():
        layer.mechanism.qkv.weight.copy_(torch.eye(dim).repeat(3, 1))
        layer.out.weight.copy_(torch.eye(dim))
        for p in (layer.mechanism.qkv.bias, layer.out.bias):
            p.zero_()
    return layer


def test_three_keys_by_hand():
    """Odds 1 : 2 : 3 give weights 1/6, 2/6, 3/6; values 6, 0, 12 give 1 + 0 + 6 = 7."""
    scores = DenseScores(torch.tensor([0.0, LN2, LN3]).view(1, 1, 1, 3), QueryKeyPositions(range(1), range(3)))
    assert torch.allclose(scores.weights()[0, 0, 0], torch.tensor([1.0, 2.0, 3.0]) / 6)
    value = torch.tensor([6.0, 0.0, 12.0]).view(1, 1, 3, 1)
    assert float(Attend()(scores, value)) == pytest.approx(7)
    hidden = Mask(key_mask=torch.tensor([[True, True, False]]))  # odds 1 : 2, so 2
    assert float(Attend()(scores, value, hidden)) == pytest.approx(2)


def test_the_dot_product_is_scaled_by_the_root_of_the_width():
    """d = 4: q·k = 2 ln 3 and 0, scaled by 1/2: ln 3 and 0, weights 3/4 and 1/4; values 4 and 8 give 5."""
    query = torch.tensor([1.0, 0, 0, 0]).view(1, 1, 1, 4)
    key = torch.tensor([[2 * LN3, 0, 0, 0], [0, 1.0, 0, 0]]).view(1, 1, 2, 4)
    scores = DotMechanism(4, 1).score(query, key, QueryKeyPositions(range(1), range(2)))
    assert torch.allclose(scores.weights()[0, 0, 0], torch.tensor([0.75, 0.25]))
    value = torch.tensor([[4.0], [8.0]]).view(1, 1, 2, 1)
    assert float(scores.attend(value)) == pytest.approx(5)


def test_a_whole_layer_by_hand():
    """One head of width 1: x = (0, ln 2), so the second query's logits are 0 and (ln 2)²."""
    layer = plain(MultiHeadAttention(1, 1)).eval()
    x = torch.tensor([0.0, LN2]).view(1, 2, 1)
    odds = math.exp(LN2**2)
    with torch.no_grad():
        assert torch.allclose(layer(x)[0, :, 0], torch.tensor([LN2 / 2, LN2 * odds / (1 + odds)]))
        assert torch.allclose(layer(x, causal=True)[0, :, 0], torch.tensor([0.0, LN2 * odds / (1 + odds)]))


def test_heads_read_their_own_part():
    """Two heads of width 1: the first head's scores read the first part of the value, the second's the other."""
    layer = plain(MultiHeadAttention(2, 2)).eval()
    x = torch.tensor([[0.0, LN3], [1.0, 0.0]]).view(1, 2, 2)
    with torch.no_grad():
        out = layer(x)[0]
    odds, e = math.exp(LN3**2), math.e
    assert out[0].tolist() == pytest.approx([0.5, LN3 * odds / (1 + odds)])  # head 1: logits 0, 0; head 2: (ln 3)², 0
    assert out[1].tolist() == pytest.approx([e / (1 + e), LN3 / 2])  # head 1: logits 0, 1; head 2: 0, 0


def test_a_bias_is_added_to_the_logits():
    nothing = torch.zeros(1, 1, 1, 2)
    bias = torch.tensor([0.0, LN3, LN2]).view(1, 1, 1, 3)
    scores = DotScores(nothing, torch.zeros(1, 1, 3, 2), QueryKeyPositions(range(1), range(3)), 1.0, bias)
    assert torch.allclose(scores.weights()[0, 0, 0], torch.tensor([1.0, 3.0, 2.0]) / 6)
    value = torch.tensor([6.0, 0.0, 12.0]).view(1, 1, 3, 1)
    assert float(scores.attend(value)) == pytest.approx(5)
    assert float(scores.attend(value, Mask(key_mask=torch.tensor([[True, False, True]])))) == pytest.approx(10)


def test_where_nothing_is_allowed_nothing_is_read():
    logits = torch.randn(1, 1, 2, 3, requires_grad=True)
    weights = masked_softmax(logits, torch.tensor([[True, False, True], [False, False, False]]))
    assert weights[0, 0, 1].tolist() == [0.0, 0.0, 0.0]
    assert weights[0, 0, 0, 1].item() == 0.0
    weights.square().sum().backward()
    assert bool(logits.grad.isfinite().all())
    assert float(logits.grad[0, 0, 1].abs().max()) == 0.0


def test_dropout_falls_on_weights_and_only_in_training():
    scores = DenseScores(torch.zeros(1, 1, 1, 4), QueryKeyPositions(range(1), range(4)))
    value, attend = torch.eye(4)[None, None], Attend(0.5)
    torch.manual_seed(0)
    kept = torch.stack([attend(scores, value).flatten() for _ in range(50)])
    assert set(kept.flatten().tolist()) == {0.0, 0.5}  # a quarter each, doubled or dropped
    assert attend.eval()(scores, value).flatten().tolist() == [0.25] * 4


@settings(max_examples=40, deadline=None)
@given(q=st.integers(1, 7), k=st.integers(1, 7), seed=st.integers(0, 999), size=st.floats(0.01, 30))
def test_weights_are_a_softmax_over_what_is_allowed(q: int, k: int, seed: int, size: float):
    g = torch.Generator().manual_seed(seed)
    logits = size * torch.randn(2, 3, q, k, generator=g, dtype=torch.float64)
    allowed = torch.rand(2, 1, q, k, generator=g) < 0.5
    weights = masked_softmax(logits, allowed)
    raw = torch.where(allowed, (logits - logits.amax(-1, keepdim=True)).exp(), 0.0)
    total = raw.sum(-1, keepdim=True)
    assert torch.allclose(weights, torch.where(total > 0, raw / total, 0.0))
    assert float(weights.masked_select(~allowed).abs().sum()) == 0.0


@settings(max_examples=25, deadline=None)
@given(
    heads=st.integers(1, 3),
    width=st.integers(1, 5),
    n=st.integers(1, 6),
    m=st.integers(1, 6),
    seed=st.integers(0, 99),
    masked=st.booleans(),
)
def test_the_fused_way_reads_what_the_weights_read(heads: int, width: int, n: int, m: int, seed: int, masked: bool):
    g = torch.Generator().manual_seed(seed)
    query, key, value = (torch.randn(2, heads, s, width, generator=g, dtype=torch.float64) for s in (n, m, m))
    bias = torch.randn(1, heads, n, m, generator=g, dtype=torch.float64) if seed % 2 else None
    mask = Mask(attn_mask=torch.rand(2, 1, n, m, generator=g) < 0.5) if masked else None
    scores = DotScores(query, key, QueryKeyPositions(range(n), range(m)), 0.7, bias)
    assert torch.allclose(scores.attend(value, mask), scores.apply(scores.weights(mask), value))


# --- parity with torch.nn: True means "may not be seen" there ---

B, N, M, DIM, HEADS = 2, 11, 13, 21, 3


def copied(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    """Weights of torch's layer into ours."""
    with torch.no_grad():
        for p in theirs.parameters():  # torch starts biases at zero, which would hide them
            p.add_(0.1 * torch.randn_like(p))
        mechanism = ours.mechanism
        if theirs.in_proj_weight is not None:
            mechanism.qkv.weight.copy_(theirs.in_proj_weight)
            mechanism.qkv.bias.copy_(theirs.in_proj_bias)
        else:
            b = theirs.in_proj_bias.chunk(3)
            mechanism.q.weight.copy_(theirs.q_proj_weight)
            mechanism.q.bias.copy_(b[0])
            mechanism.kv.weight.copy_(torch.cat((theirs.k_proj_weight, theirs.v_proj_weight)))
            mechanism.kv.bias.copy_(torch.cat(b[1:]))
        ours.out.load_state_dict(theirs.out_proj.state_dict())


def pair(**options) -> tuple[nn.MultiheadAttention, MultiHeadAttention]:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(DIM, HEADS, batch_first=True, **options).double()
    ours = MultiHeadAttention(DIM, HEADS, context_dim=options.get("kdim")).double()
    copied(theirs, ours)
    return theirs, ours


def agree(theirs: Tensor, ours: Tensor, inputs: list[Tensor]) -> None:
    """Outputs and gradients with respect to the inputs."""
    assert torch.allclose(theirs, ours, atol=1e-12)
    weights = torch.randn_like(ours)
    wanted, given = (torch.autograd.grad((out * weights).sum(), inputs) for out in (theirs, ours))
    for a, b in zip(given, wanted, strict=True):
        assert torch.allclose(a, b, atol=1e-11)


def given_inputs(width: int = DIM) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(1)
    x = torch.randn(B, N, DIM, generator=g, dtype=torch.float64, requires_grad=True)
    return x, torch.randn(B, M, width, generator=g, dtype=torch.float64, requires_grad=True)


PADDED = torch.arange(N) < torch.tensor([[N], [7]])
PATTERN = torch.rand(N, N, generator=torch.Generator().manual_seed(2)) < 0.5
PATTERN.fill_diagonal_(True)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    ("ours_given", "theirs_given"),
    [
        ({}, {}),
        ({"mask": PADDED}, {"key_padding_mask": ~PADDED}),
        ({"causal": True}, {"attn_mask": ~torch.ones(N, N, dtype=torch.bool).tril()}),
        ({"mask": PATTERN[None]}, {"attn_mask": ~PATTERN}),
        ({"mask": Mask(PADDED, PATTERN[None, None])}, {"key_padding_mask": ~PADDED, "attn_mask": ~PATTERN}),
    ],
    ids=["none", "padding", "causal", "pairs", "padding and pairs"],
)
def test_self_attention_equals_torch(ours_given: dict, theirs_given: dict, train: bool):
    theirs, ours = pair()
    theirs.train(train), ours.train(train)
    x, _ = given_inputs()
    wanted, weights = theirs(x, x, x, average_attn_weights=False, **theirs_given)
    out = ours(x, **ours_given)
    real = PADDED if "padding" in "".join(theirs_given) else torch.ones_like(PADDED)
    agree(wanted[real], out[real], [x])
    with record(ours) as seen:
        ours(x, **ours_given)
    rows = real[:, None, :, None].expand_as(weights)
    torch.testing.assert_close(seen["attend"][rows], weights[rows].to(seen["attend"].dtype), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("width", [DIM, 17])
def test_cross_attention_equals_torch_at_any_width(width: int):
    theirs, ours = pair(**({} if width == DIM else {"kdim": width, "vdim": width}))
    x, memory = given_inputs(width)
    real = torch.arange(M) < torch.tensor([[9], [M]])
    agree(theirs(x, memory, memory, need_weights=False)[0], ours(x, memory), [x, memory])
    wanted = theirs(x, memory, memory, key_padding_mask=~real, need_weights=False)[0]
    agree(wanted, ours(x, memory, mask=real), [x, memory])
    agree(
        theirs(x, memory, memory, key_padding_mask=~real)[0], ours(x, ours.project_kv(memory, key_mask=real)), [x, memory]
    )


def test_recorded_weights_equal_torchs():

    theirs, ours = pair()
    x, memory = given_inputs()
    _, wanted = theirs(x, memory, memory, average_attn_weights=False)
    with record(ours) as seen:
        ours(x, memory)
    assert torch.allclose(seen["attend"], wanted, atol=1e-12)


def fed(theirs: nn.Module, ours: FeedForward) -> None:
    with torch.no_grad():
        ours.up.load_state_dict(theirs.linear1.state_dict())
        ours.down.load_state_dict(theirs.linear2.state_dict())


def normed(theirs: nn.LayerNorm, ours: nn.Module) -> None:
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(0.1 * torch.randn_like(p))
    ours.norm.load_state_dict(theirs.state_dict())


def feed() -> FeedForward:
    return FeedForward(DIM, 29, activation=nn.functional.relu)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(("first", "residual"), [(True, PreNorm), (False, PostNorm)])
def test_the_encoder_block_equals_torch(first: bool, residual: type, train: bool):
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(DIM, HEADS, 29, 0.0, batch_first=True, norm_first=first).double()
    ours = EncoderBlock(MultiHeadAttention(DIM, HEADS), feed(), residual=residual).double()
    copied(theirs.self_attn, ours.attention)
    fed(theirs, ours.ffn)
    normed(theirs.norm1, ours.attention_residual)
    normed(theirs.norm2, ours.ffn_residual)
    theirs.train(train), ours.train(train)
    x, _ = given_inputs()
    agree(theirs(x), ours(x), [x])
    real = PADDED
    agree(theirs(x, src_key_padding_mask=~real)[real], ours(x, mask=real)[real], [x])
    hidden = ~torch.ones(N, N, dtype=torch.bool).tril()
    agree(theirs(x, src_mask=hidden), ours(x, causal=True), [x])


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(("first", "residual"), [(True, PreNorm), (False, PostNorm)])
def test_the_decoder_block_equals_torch(first: bool, residual: type, train: bool):
    torch.manual_seed(0)
    theirs = nn.TransformerDecoderLayer(DIM, HEADS, 29, 0.0, batch_first=True, norm_first=first).double()
    ours = DecoderBlock(
        MultiHeadAttention(DIM, HEADS), MultiHeadAttention(DIM, HEADS), feed(), residual=residual
    ).double()
    copied(theirs.self_attn, ours.attention)
    copied(theirs.multihead_attn, ours.cross_attention)
    fed(theirs, ours.ffn)
    for norm, around in ((1, ours.attention_residual), (2, ours.cross_attention_residual), (3, ours.ffn_residual)):
        normed(getattr(theirs, f"norm{norm}"), around)
    theirs.train(train), ours.train(train)
    x, memory = given_inputs()
    real = torch.arange(M) < torch.tensor([[9], [M]])
    hidden = ~torch.ones(N, N, dtype=torch.bool).tril()
    wanted = theirs(x, memory, tgt_mask=hidden, memory_key_padding_mask=~real)
    source = ours.cross_attention.project_kv(memory, key_mask=real)
    agree(wanted, ours(x, source), [x, memory])
    past, steps = None, []
    for part in ours_chunks(x):
        out, past = ours.step(part, past, source)
        steps.append(out)
    assert torch.allclose(torch.cat(steps, 1), wanted, atol=1e-12)


def ours_chunks(x: Tensor) -> tuple[Tensor, ...]:
    return x.split((1, 1, 4, 5), 1)


# --- what a layer says when it is asked for what cannot be ---


def test_heads_that_do_not_divide_the_width_are_told_with_a_number_that_does():
    with pytest.raises(UserError, match=r"5 heads do not divide the width 12; [46] would"):
        MultiHeadAttention(12, 5)


def test_unknown_names_and_options_are_told_with_the_nearest():
    with pytest.raises(
        UserError, match=r"unknown mechanism 'dott'; did you mean 'dot'\? known: additive, bare, .*, dot, local"
    ):
        MultiHeadAttention(12, 3, "dott")
    with pytest.raises(UserError, match=r"no option 'key_widht'; did you mean 'key_width'\? known: key_width"):
        MultiHeadAttention(12, 3, "dot:key_widht=3")
    with pytest.raises(UserError, match="no option 'window'"):
        MultiHeadAttention(12, 3, "dot", window=3)
    with pytest.raises(UserError, match="unknown positions 'sinusoida'; did you mean 'sinusoidal'"):
        MultiHeadAttention(12, 3, positions="sinusoida")


def test_a_ready_mechanism_takes_no_second_set_of_options():
    ready = DotMechanism(12, 3)
    assert MultiHeadAttention(12, 3, ready).mechanism is ready
    with pytest.raises(UserError, match="give them to the mechanism"):
        MultiHeadAttention(12, 3, ready, positions="alibi")
    with pytest.raises(UserError, match="give them to the mechanism"):
        MultiHeadAttention(12, 3, ready, key_width=4)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned:length=8"])
def test_a_layer_refuses_positions_that_it_would_not_use(positions: str):
    with pytest.raises(UserError, match="before the first layer"):
        MultiHeadAttention(12, 3, positions=positions)


def test_a_ready_mechanism_must_fit_the_layer():
    for dim, heads in ((12, 4), (24, 3)):
        with pytest.raises(UserError, match=f"12 with 3 heads does not fit a layer of width {dim} with {heads}"):
            MultiHeadAttention(dim, heads, DotMechanism(12, 3))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "sizes", [{"heads": 0}, {"heads": -3}, {"dim": 0}, {"value_width": 0}, {"context_dim": -1}], ids=str
)
def test_sizes_below_one_are_told(mechanism: str, sizes: dict[str, int]):
    ((name, given),) = sizes.items()
    with pytest.raises(UserError, match=f"{name} must be at least 1, and was given {given}"):
        MultiHeadAttention(**{"dim": 12, "heads": 3, **sizes}, mechanism=mechanism)


@pytest.mark.parametrize("positions", POSITIONS)
def test_positions_for_no_heads_are_told(positions: str):
    with pytest.raises(UserError, match="heads must be at least 1, and was given 0"):
        MultiHeadAttention(12, 0, positions=positions)


def test_every_projection_starts_alike_whatever_the_memorys_width():
    """Glorot's bound, no bias: mechanisms that are compared differ in their scores and in nothing else."""
    mechanism = MultiHeadAttention(60, 3, context_dim=17).mechanism
    assert mechanism.q.bias.abs().max() == 0
    assert 0.95 < float(mechanism.q.weight.detach().abs().max()) / (6 / (60 + 60)) ** 0.5 <= 1


def test_options_are_read_from_the_name():
    assert MultiHeadAttention(12, 3, "dot:key_width=5").mechanism.key_width == 5
    assert MultiHeadAttention(12, 3, "dot", key_width=5).mechanism.key_width == 5
    assert MultiHeadAttention(12, 3, value_width=5)(torch.randn(1, 2, 12)).shape == (1, 2, 12)
    assert MultiHeadAttention(12, 3, value_width=5, output_proj=False)(torch.randn(1, 2, 12)).shape == (1, 2, 15)


# --- pooling, recurrent nets, cost ---


def test_pooling_by_hand():
    """W_1 = 1, context 1: logits tanh(x); x = (0, artanh ln 3) gives odds 1 : 3."""
    pool = AttentionPooling(1, 1, bias=False)
    with torch.no_grad():
        pool.project.weight.fill_(1), pool.context.weight.fill_(LN3 / 0.8)
        x = torch.tensor([0.0, math.atanh(0.8)]).view(1, 2, 1)
        out, scores = pool(x)
    assert torch.allclose(scores.weights()[0, 0, 0], torch.tensor([0.25, 0.75]))
    assert float(out) == pytest.approx(0.75 * math.atanh(0.8))


def test_pooling_does_not_see_padding_and_an_empty_row_gives_zero():
    torch.manual_seed(0)
    pool, x = AttentionPooling(5, 7, hops=2), torch.randn(3, 4, 5)
    mask = torch.arange(4) < torch.tensor([[4], [2], [0]])
    out, _ = pool(x, mask)
    dirty, _ = pool(x.masked_fill(~mask[..., None], torch.nan), mask)
    assert torch.equal(out, dirty)
    assert torch.allclose(out[1], pool(x[1:2, :2])[0][0], atol=1e-6)
    assert torch.equal(out[2], torch.zeros(2, 5))


def test_pooling_checks_its_mask():
    pool, x = AttentionPooling(5), torch.randn(2, 4, 5)
    with pytest.raises(UserError, match=r"must be bool with True for what may be seen; given dtype torch.int64"):
        pool(x, torch.ones(2, 4, dtype=torch.int64))
    with pytest.raises(UserError, match=r"has shape \(4, 2\); wanted \(2, 4\)"):
        pool(x, torch.ones(4, 2, dtype=torch.bool))


def test_pooling_by_no_hops_is_told():
    with pytest.raises(UserError, match="pooling: hops must be at least 1, and was given 0"):
        AttentionPooling(5, hops=0)


def test_redundancy_by_hand():
    """Two hops on two words: apart 0; both on one word, A Aᵀ is all ones and off the identity by 1 + 1."""
    apart, alike = torch.eye(2)[None, None], torch.tensor([[1.0, 0.0], [1.0, 0.0]])[None, None]
    assert hop_penalty(apart).tolist() == [0.0]
    assert hop_penalty(alike).tolist() == [2.0]


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_two_way_reads_each_row_within_its_length(cell: str):
    torch.manual_seed(0)
    net, x = BidirectionalRNN(3, 5, cell), torch.randn(2, 6, 3)
    lengths = torch.tensor([6, 4])
    out = net(x, lengths)
    x[1, 4:] = 1e9
    assert torch.equal(net(x, lengths)[1, :4], out[1, :4])
    assert torch.allclose(net(x[1:, :4], lengths[1:])[0], out[1, :4], atol=1e-6)
    assert reverse_padded(torch.arange(6.0).view(1, 6, 1), torch.tensor([4])).flatten().tolist() == [3, 2, 1, 0, 4, 5]


def test_costs_add_up():
    total = Cost(1, 10, 100, 2, 3) + Cost(5, 50, 500, 1, 4)
    assert total.as_dict() == {"params": 6, "flops": 60, "memory": 600, "steps": 2, "path": 4}


def test_the_cost_of_a_layer_by_hand():
    """dim 4, 2 heads of width 2, n = 3: projections 4 · 2 · 3 · 4 · 4 = 384, pairs 2 · 2 · 3 · 3 · (2 + 2) = 144."""
    cost = MultiHeadAttention(4, 2).cost(3)
    assert cost.params == 4 * (4 * 4 + 4)
    assert cost.flops == 384 + 144
    assert cost.memory == 4 * 2 * 3 * 3
