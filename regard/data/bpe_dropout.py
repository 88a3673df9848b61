"""A word cut into other pieces each time it is seen: BPE-dropout (Provilkov et al. 2020, BPE-Dropout: Simple and
Effective Subword Regularization, algorithm 1).

    merge the pair of least rank among those that are not left out, each with chance p, anew before each merge

so that a model meets rare pieces, and words in spite of how they are cut. For each different word `WAYS` cuts are drawn
once, and each time the word is read one of them: an epoch costs a few numpy calls. The library's own dropout draws from
a source that takes no seed; here the same seed and epoch give the same cuts.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import numpy as np

from regard.data.tokenizer import EOS, Tokenizer

WAYS = 8


class Recut:
    """Texts whose words are cut anew in each epoch."""

    def __init__(self, texts: Sequence[str], words: Tokenizer, *, chance: float, seed: int):
        model = json.loads(words.core.to_str())["model"]
        ranks = {tuple(pair): rank for rank, pair in enumerate(model["merges"])}
        numbers: dict[str, int] = {}
        home: list[int] = []
        starts = [0]
        for text in texts:
            pieces = words.core.pre_tokenizer.pre_tokenize_str(text)  # type: ignore[union-attr]
            home += [numbers.setdefault(piece, len(numbers)) for piece, _ in pieces]
            starts.append(len(home))
        random = np.random.default_rng(seed)
        cuts = [[model["vocab"][part] for part in cut(w, ranks, chance, random)] for w in numbers for _ in range(WAYS)]
        self.seed, self._home, self._starts = seed, np.array(home), np.array(starts)
        self._sizes = np.array([len(ids) for ids in cuts])
        self._first = np.concatenate(([0], np.cumsum(self._sizes)[:-1]))
        self._ids = np.array([id for ids in cuts for id in ids], np.int32)

    def epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """All texts, flat, each ending with [EOS], and where each starts (and the last ends)."""
        random = np.random.default_rng([self.seed, epoch])
        row = self._home * WAYS + random.integers(WAYS, size=len(self._home))
        sizes = self._sizes[row]
        ends = np.concatenate(([0], np.cumsum(sizes)))
        place = np.arange(ends[-1]) - np.repeat(ends[:-1], sizes)  # within its word
        ids = self._ids[np.repeat(self._first[row], sizes) + place]
        lengths = np.diff(ends[self._starts]) + 1
        starts = np.concatenate(([0], np.cumsum(lengths)))
        found = np.full(int(starts[-1]), EOS, np.int32)
        real = np.ones(len(found), bool)
        real[starts[1:] - 1] = False
        found[real] = ids
        return found, starts


def cut(word: str, ranks: dict[tuple[str, str], int], chance: float, random: np.random.Generator) -> list[str]:
    """One word, written in the alphabet of the merges, in pieces."""
    parts = list(word)
    while len(parts) > 1:
        known = [(ranks[pair], i) for i, pair in enumerate(itertools.pairwise(parts)) if pair in ranks]
        kept = [found for found, drawn in zip(known, random.random(len(known)), strict=True) if drawn >= chance]
        if not kept:
            break
        _, i = min(kept)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts
