"""Decoding: let a model write on, or fill in what is missing."""

from regard.decoding.generate import Writer, Written, generate
from regard.decoding.sampling import GREEDY, Sampling

__all__ = ["GREEDY", "Sampling", "Writer", "Written", "generate"]
