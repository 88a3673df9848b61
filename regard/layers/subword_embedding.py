"""Subword embeddings: words with similar spelling share a part of their vectors.

    e[w] = E[w] + 1/√|G(w)| · Σ_{g ∈ G(w)} U[bucket(g)]      G(w): all character n-grams of <w> of length 3 to 5

(Bojanowski et al. 2017, Enriching Word Vectors with Subword Information, section 3.2; they use lengths up to 6 and do
not divide.) A rare word then gets the meaning of its stem and ending from other words. N-grams share the rows of U by a
hash (FNV-1a). Of a long word only the first `MAX_NGRAMS` count. Special tokens have none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.validation import check_positive

LENGTHS = (3, 4, 5)
MAX_NGRAMS = 40
_MAX_CHARACTERS = 64
_CHUNK = 1 << 15
_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


class SubwordEmbedding(nn.Module):
    """Embedding of the character n-grams of each word. It is zero before `set_words`.

    Args:
        vocab_size: Number of words.
        buckets: Rows of U.
        dim: Width of the embeddings.
    """

    ngrams: Tensor

    def __init__(self, vocab_size: int, buckets: int, dim: int):
        super().__init__()
        check_positive("subword embedding", vocab_size=vocab_size, buckets=buckets, dim=dim)
        self.buckets = nn.Embedding(buckets, dim)
        nn.init.normal_(self.buckets.weight, std=0.02 if dim > 64 else 0.1)
        ngrams = torch.zeros(vocab_size, MAX_NGRAMS, dtype=torch.int32)  # bucket + 1 of each n-gram; 0 for none
        self.register_buffer("ngrams", ngrams)

    def set_words(self, words: Sequence[str]) -> None:
        """Set the spelling of each word of the vocabulary, in the order of their ids; "" for special tokens."""
        self.ngrams.copy_(torch.from_numpy(ngram_buckets(words, self.buckets.num_embeddings)))

    def forward(self, ids: Tensor) -> Tensor:
        """Word ids (...) to embeddings (..., dim)."""
        words, index = ids.unique(return_inverse=True)
        return F.embedding(index, sum_ngrams(self.buckets.weight, self.ngrams[words]))


def sum_ngrams(table: Tensor, ngrams: Tensor) -> Tensor:
    """The scaled sum of n-gram vectors for each word: (buckets, dim), (words, MAX_NGRAMS) to (words, dim)."""
    exists = ngrams > 0
    counts = exists.sum(-1)
    starts = counts.cumsum(0) - counts
    total = F.embedding_bag(ngrams[exists].long() - 1, table, starts, mode="sum")
    return total / counts.clamp(min=1).sqrt()[:, None]


def ngram_buckets(words: Sequence[str], buckets: int) -> np.ndarray:
    """Bucket + 1 of each n-gram of each word, (words, MAX_NGRAMS) int32, filled up with 0."""
    result = np.zeros((len(words), MAX_NGRAMS), np.int32)
    for first in range(0, len(words), _CHUNK):
        chunk = [f"<{word[:_MAX_CHARACTERS]}>" if word else "" for word in words[first : first + _CHUNK]]
        result[first : first + len(chunk)] = _hash_ngrams(chunk, buckets)
    return result


def _hash_ngrams(words: list[str], buckets: int) -> np.ndarray:
    letters = np.zeros((len(words), max(LENGTHS + tuple(map(len, words)))), np.uint64)
    for row, word in zip(letters, words, strict=True):
        row[: len(word)] = np.frombuffer(word.encode("utf-32-le", "surrogatepass"), np.uint32)
    columns = []
    for length in LENGTHS:
        count = letters.shape[1] - length + 1
        key = np.full((len(words), count), _FNV_OFFSET)
        for k in range(length):
            key = (key ^ letters[:, k : k + count]) * _FNV_PRIME  # overflows, as FNV does
        bucket = (key ^ key >> np.uint64(32)) % np.uint64(buckets) + np.uint64(1)
        columns.append(np.where(letters[:, length - 1 :] > 0, bucket, 0).astype(np.int32))
    ngrams = np.concatenate(columns, 1)
    order = np.argsort(ngrams == 0, axis=1, kind="stable")[:, :MAX_NGRAMS]  # existing n-grams first
    first_ngrams = np.take_along_axis(ngrams, order, 1)
    return np.pad(first_ngrams, ((0, 0), (0, MAX_NGRAMS - first_ngrams.shape[1])))
