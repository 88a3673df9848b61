"""Decoding: let a model write on, translate, or fill in what is missing."""

from regard.decoding.beam_search import Beam, Said
from regard.decoding.generation import Writer, Written, generate
from regard.decoding.sampling import GREEDY, Sampling
from regard.decoding.translation import Interpreter

__all__ = ["GREEDY", "Beam", "Interpreter", "Said", "Sampling", "Writer", "Written", "generate"]
