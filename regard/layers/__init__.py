"""Layers: multi-head attention with any mechanism, attention pooling, Transformer blocks, bidirectional RNNs."""

from regard.layers.attention_pooling import AttentionPooling, hop_kl, hop_penalty
from regard.layers.bidirectional_rnn import BidirectionalRNN, reverse_padded
from regard.layers.merge_qk import factor_qk, merge_qk
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.layers.spatial_attention import SpatialAttention
from regard.layers.transformer_blocks import DecoderBlock, EncoderBlock, FeedForward, PostNorm, PreNorm

__all__ = [
    "AttentionPooling",
    "BidirectionalRNN",
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "MultiHeadAttention",
    "PostNorm",
    "PreNorm",
    "SpatialAttention",
    "factor_qk",
    "hop_kl",
    "hop_penalty",
    "merge_qk",
    "reverse_padded",
]
