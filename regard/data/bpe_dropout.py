"""BPE-dropout: split words into different subwords in each epoch (Provilkov et al. 2020, BPE-Dropout: Simple and
Effective Subword Regularization, algorithm 1).

    before each merge, drop each applicable merge with probability p; apply the remaining one of the lowest rank

The model then sees rare subwords, and becomes robust to how words are split. For each distinct word,
`NUM_SEGMENTATIONS` random segmentations are computed once, and each occurrence of the word picks one of them. An epoch
costs a few numpy calls. The tokenizers library has its own dropout, but it takes no seed. Here the same seed and epoch
give the same subwords.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import numpy as np

from regard.data.tokenizer import EOS, Tokenizer

NUM_SEGMENTATIONS = 8


class BPEDropout:
    """Texts whose words are segmented again at random in each epoch.

    Args:
        texts: The texts.
        tokenizer: A byte-level BPE tokenizer.
        dropout: Probability of dropping a merge.
        seed: The same seed gives the same segmentations.
    """

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer, *, dropout: float, seed: int):
        model = json.loads(tokenizer.core.to_str())["model"]
        ranks = {tuple(pair): rank for rank, pair in enumerate(model["merges"])}
        index_of_word: dict[str, int] = {}
        word_indices: list[int] = []
        starts = [0]
        for text in texts:
            words = tokenizer.core.pre_tokenizer.pre_tokenize_str(text)  # type: ignore[union-attr]
            word_indices += [index_of_word.setdefault(word, len(index_of_word)) for word, _ in words]
            starts.append(len(word_indices))
        rng = np.random.default_rng(seed)
        segmentations = [
            [model["vocab"][subword] for subword in segment_word(word, ranks, dropout, rng)]
            for word in index_of_word
            for _ in range(NUM_SEGMENTATIONS)
        ]
        self.seed, self._word_indices, self._starts = seed, np.array(word_indices), np.array(starts)
        self._sizes = np.array([len(ids) for ids in segmentations])
        self._offsets = np.concatenate(([0], np.cumsum(self._sizes)[:-1]))
        self._ids = np.array([id for ids in segmentations for id in ids], np.int32)

    def encode_epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of all texts in one flat array, each followed by [EOS], and the offsets of texts, (n + 1,)."""
        rng = np.random.default_rng([self.seed, epoch])
        row = self._word_indices * NUM_SEGMENTATIONS + rng.integers(NUM_SEGMENTATIONS, size=len(self._word_indices))
        sizes = self._sizes[row]
        word_offsets = np.concatenate(([0], np.cumsum(sizes)))
        offset_in_word = np.arange(word_offsets[-1]) - np.repeat(word_offsets[:-1], sizes)
        subword_ids = self._ids[np.repeat(self._offsets[row], sizes) + offset_in_word]
        lengths = np.diff(word_offsets[self._starts]) + 1
        starts = np.concatenate(([0], np.cumsum(lengths)))
        ids = np.full(int(starts[-1]), EOS, np.int32)
        is_subword = np.ones(len(ids), bool)
        is_subword[starts[1:] - 1] = False
        ids[is_subword] = subword_ids
        return ids, starts


def segment_word(word: str, ranks: dict[tuple[str, str], int], dropout: float, rng: np.random.Generator) -> list[str]:
    """Split one word, written in the alphabet of the merges, into subwords; each merge is dropped with `dropout`."""
    parts = list(word)
    while len(parts) > 1:
        merges = [(ranks[pair], i) for i, pair in enumerate(itertools.pairwise(parts)) if pair in ranks]
        remaining = [merge for merge, u in zip(merges, rng.random(len(merges)), strict=True) if u >= dropout]
        if not remaining:
            break
        _, i = min(remaining)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts
