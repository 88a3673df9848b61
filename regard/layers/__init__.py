"""Layers: multi-head attention over any mechanism, pooling by attention, the Transformer's blocks, two-way recurrent
nets."""

from regard.layers.blocks import DecoderBlock, EncoderBlock, FeedForward, PostNorm, PreNorm
from regard.layers.merging import factor, merge
from regard.layers.multihead import MultiHead
from regard.layers.pool import Pool, divergence, redundancy
from regard.layers.recurrent import TwoWay, turn
from regard.layers.spatial import Spatial

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
