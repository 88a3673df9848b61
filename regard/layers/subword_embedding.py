"""What the letters of a word tell, beside the word: words that are written alike share a part of their vectors.

    e[w] = E[w] + 1/√|G(w)| · Σ_{g ∈ G(w)} U[bucket(g)]      G(w): all runs of 3 to 5 characters of <w>

(Bojanowski et al. 2017, Enriching Word Vectors with Subword Information, section 3.2; they take runs of up to 6 and do
not divide.) A word that was read twice then knows what its stem and its ending mean from other words. Runs share the
rows of U by a hash (FNV-1a); of a long word the first `MOST` count. Special tokens are not spelt.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.validation import check_positive

LENGTHS = (3, 4, 5)
MOST = 40
_LONGEST = 64  # characters of a word that are looked at
_CHUNK = 1 << 15
_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


class SubwordEmbedding(nn.Module):
    """The second part of e at ids (...), (..., dim). Zero for every word before `spell`."""

    runs: Tensor

    def __init__(self, vocab: int, rows: int, dim: int):
        super().__init__()
        check_positive("spelling", vocab=vocab, rows=rows, dim=dim)
        self.pieces = nn.Embedding(rows, dim)
        nn.init.normal_(self.pieces.weight, std=0.02 if dim > 64 else 0.1)
        self.register_buffer("runs", torch.zeros(vocab, MOST, dtype=torch.int32))  # row + 1 of each run; 0 is none

    def spell(self, words: Sequence[str]) -> None:
        """How each word of the vocabulary is written, in the order of their ids; "" for one that is not."""
        self.runs.copy_(torch.from_numpy(buckets(words, self.pieces.num_embeddings)))

    def forward(self, ids: Tensor) -> Tensor:
        words, back = ids.unique(return_inverse=True)
        return F.embedding(back, spelt(self.pieces.weight, self.runs[words]))


def spelt(pieces: Tensor, runs: Tensor) -> Tensor:
    """What rows of runs (words, MOST) come to: (words, dim)."""
    real = runs > 0
    counts = real.sum(-1)
    starts = counts.cumsum(0) - counts
    total = F.embedding_bag(runs[real].long() - 1, pieces, starts, mode="sum")
    return total / counts.clamp(min=1).sqrt()[:, None]


def buckets(words: Sequence[str], rows: int) -> np.ndarray:
    """The row of each run of each word, from 1 on, (words, MOST) int32; 0 where a word has no more."""
    found = np.zeros((len(words), MOST), np.int32)
    for first in range(0, len(words), _CHUNK):
        part = words[first : first + _CHUNK]
        found[first : first + len(part)] = _hashed([f"<{word[:_LONGEST]}>" if word else "" for word in part], rows)
    return found


def _hashed(words: list[str], rows: int) -> np.ndarray:
    letters = np.zeros((len(words), max(LENGTHS + tuple(map(len, words)))), np.uint64)
    for row, word in zip(letters, words, strict=True):
        row[: len(word)] = np.frombuffer(word.encode("utf-32-le", "surrogatepass"), np.uint32)
    each = []
    for length in LENGTHS:
        qk_positions = letters.shape[1] - length + 1
        key = np.full((len(words), qk_positions), _BASIS)
        for k in range(length):
            key = (key ^ letters[:, k : k + qk_positions]) * _PRIME  # wraps around
        bucket = (key ^ key >> np.uint64(32)) % np.uint64(rows) + np.uint64(1)
        each.append(np.where(letters[:, length - 1 :] > 0, bucket, 0).astype(np.int32))
    every = np.concatenate(each, 1)
    order = np.argsort(every == 0, axis=1, kind="stable")[:, :MOST]  # those that are there first
    kept = np.take_along_axis(every, order, 1)
    return np.pad(kept, ((0, 0), (0, MOST - kept.shape[1])))
