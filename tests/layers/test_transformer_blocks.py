"""Encoder and decoder blocks equal those of torch.nn."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_parity import (
    CAUSAL,
    DIM,
    HEADS,
    KEY_MASK,
    M,
    assert_same,
    copy_attention,
    copy_ffn,
    copy_norm,
    random_inputs,
)

from regard.layers import DecoderBlock, EncoderBlock, FeedForward, MultiHeadAttention, PostNorm, PreNorm

HIDDEN = 29


def build_ffn() -> FeedForward:
    return FeedForward(DIM, HIDDEN, activation=nn.functional.relu)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(("norm_first", "residual"), [(True, PreNorm), (False, PostNorm)])
def test_the_encoder_block_equals_torch(norm_first: bool, residual: type, train: bool):
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(DIM, HEADS, HIDDEN, 0.0, batch_first=True, norm_first=norm_first).double()
    ours = EncoderBlock(MultiHeadAttention(DIM, HEADS), build_ffn(), residual=residual).double()
    copy_attention(theirs.self_attn, ours.attention)
    copy_ffn(theirs, ours.ffn)
    copy_norm(theirs.norm1, ours.attention_residual)
    copy_norm(theirs.norm2, ours.ffn_residual)
    theirs.train(train), ours.train(train)
    x, _ = random_inputs()
    assert_same(theirs(x), ours(x), [x])
    expected = theirs(x, src_key_padding_mask=~KEY_MASK)
    assert_same(expected[KEY_MASK], ours(x, key_mask=KEY_MASK)[KEY_MASK], [x])
    assert_same(theirs(x, src_mask=~CAUSAL), ours(x, causal=True), [x])


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(("norm_first", "residual"), [(True, PreNorm), (False, PostNorm)])
def test_the_decoder_block_equals_torch(norm_first: bool, residual: type, train: bool):
    torch.manual_seed(0)
    theirs = nn.TransformerDecoderLayer(DIM, HEADS, HIDDEN, 0.0, batch_first=True, norm_first=norm_first).double()
    attention, cross_attention = MultiHeadAttention(DIM, HEADS), MultiHeadAttention(DIM, HEADS)
    ours = DecoderBlock(attention, cross_attention, build_ffn(), residual=residual).double()
    copy_attention(theirs.self_attn, ours.attention)
    copy_attention(theirs.multihead_attn, ours.cross_attention)
    copy_ffn(theirs, ours.ffn)
    copy_norm(theirs.norm1, ours.attention_residual)
    copy_norm(theirs.norm2, ours.cross_attention_residual)
    copy_norm(theirs.norm3, ours.ffn_residual)
    theirs.train(train), ours.train(train)
    x, context = random_inputs()
    key_mask = torch.arange(M) < torch.tensor([[9], [M]])
    expected = theirs(x, context, tgt_mask=~CAUSAL, memory_key_padding_mask=~key_mask)
    source = ours.cross_attention.project_kv(context, key_mask=key_mask)
    assert_same(expected, ours(x, source), [x, context])
    cache, outs = None, []
    for chunk in x.split((1, 1, 4, 5), 1):
        out, cache = ours.step(chunk, cache, source)
        outs.append(out)
    assert torch.allclose(torch.cat(outs, 1), expected, atol=1e-12)
