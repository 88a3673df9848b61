"""Layers: multi-head attention over any mechanism, pooling by attention, the Transformer's blocks, two-way recurrent
nets."""

from regard.layers.blocks import DecoderBlock, EncoderBlock, FeedForward, PostNorm, PreNorm
from regard.layers.merging import factor, merge
from regard.layers.multihead import MultiHead
from regard.layers.pool import Pool, divergence, redundancy
from regard.layers.recurrent import TwoWay, turn

__all__ = [
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "MultiHead",
    "Pool",
    "PostNorm",
    "PreNorm",
    "TwoWay",
    "divergence",
    "factor",
    "merge",
    "redundancy",
    "turn",
]
