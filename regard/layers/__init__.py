"""Layers: multi-head attention over any mechanism, pooling by attention, the Transformer's blocks, two-way recurrent
nets."""

from regard.layers.attention_pooling import Pool, divergence, redundancy
from regard.layers.bidirectional_rnn import TwoWay, turn
from regard.layers.merge_qk import factor, merge
from regard.layers.multi_head_attention import MultiHead
from regard.layers.spatial_attention import Spatial
from regard.layers.transformer_blocks import DecoderBlock, EncoderBlock, FeedForward, PostNorm, PreNorm

__all__ = [
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "MultiHead",
    "Pool",
    "PostNorm",
    "PreNorm",
    "Spatial",
    "TwoWay",
    "divergence",
    "factor",
    "merge",
    "redundancy",
    "turn",
]
