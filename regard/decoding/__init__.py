"""Decoding: generate, translate, caption and fill masks."""

from regard.decoding.beam_search import BeamSearch, Hypothesis
from regard.decoding.generation import GeneratedText, TextGenerator, generate
from regard.decoding.sampling import GREEDY, Sampling
from regard.decoding.translation import BatchTranslator

__all__ = [
    "GREEDY",
    "BatchTranslator",
    "BeamSearch",
    "GeneratedText",
    "Hypothesis",
    "Sampling",
    "TextGenerator",
    "generate",
]
