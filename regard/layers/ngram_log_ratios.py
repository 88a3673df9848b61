"""Log-count ratios of n-grams (naive Bayes features), computed out of fold for the training documents.

    r_c[g] = log((p_c[g] / ‖p_c‖₁) / (q_c[g] / ‖q_c‖₁))    p_c = 1 + documents of class c with g,  q_c = 1 + the others
    x[t, k, c] = r_c[g_k(t)] + δ_c[g_k(t)]                  g_k(t) = w_t .. w_{t+k-1},  k = 1..max_n

r is the log-count ratio of Wang & Manning 2012 (Baselines and Bigrams, eq. 1); δ is trained and starts at zero. A ratio
that was counted with a document leaks its label: for an n-gram of two documents it contains half the answer. A model
trained on such features would rely on rare n-grams and fail on new text. So the training documents are divided into
folds, and in training a document gets the ratios counted without its fold (Breiman 1996, Stacked Regressions). In
evaluation all documents count. The fold of a document is a function of its tokens, Σ id² mod folds.

N-grams that occur in one document only, or beyond the `table_size` most frequent, give zero. In training each n-gram of
each position is dropped with probability `dropout`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.errors import UserError

EMPTY_KEY = torch.iinfo(torch.int64).max
"""Key of an unused row of the table."""


class NGramLogRatios(nn.Module):
    """Token ids (b, n) to features (b, n, max_n, classes). Call `fit` with the training documents first.

    Args:
        vocab_size: Number of tokens.
        classes: Number of classes.
        table_size: Number of n-grams.
        max_n: Longest n-grams.
        folds: Number of folds for the out-of-fold ratios.
        dropout: Probability that an n-gram is dropped in training.
    """

    keys: Tensor
    ratios: Tensor
    held_out: Tensor

    def __init__(
        self, vocab_size: int, classes: int, *, table_size: int, max_n: int = 3, folds: int = 10, dropout: float = 0.3
    ):
        super().__init__()
        check_positive("n-grams", table_size=table_size, max_n=max_n)
        if folds < 2:
            raise UserError(f"n-gram ratios need 2 folds or more; given folds={folds}")
        if vocab_size**max_n >= EMPTY_KEY:
            raise UserError(
                f"there are too many n-grams of {max_n} tokens for 64-bit keys with a vocabulary of {vocab_size:,}; "
                "set fewer ngrams or a smaller vocabulary"
            )
        self.vocab_size, self.max_n, self.folds, self.dropout = vocab_size, max_n, folds, dropout
        self.register_buffer("keys", torch.full((table_size,), EMPTY_KEY))
        self.register_buffer("ratios", torch.zeros(table_size + 1, classes))
        self.register_buffer("held_out", torch.zeros(0), persistent=False)  # (folds, table_size + 1, classes)
        self.delta = nn.Embedding(table_size + 1, classes, padding_idx=0)
        nn.init.zeros_(self.delta.weight)

    @torch.no_grad()
    def fit(self, ids: np.ndarray, starts: np.ndarray, labels: np.ndarray) -> None:
        """Count the n-grams of the training documents.

        Args:
            ids: Token ids of all documents, concatenated.
            starts: Start of each document, and the end of the last, (documents + 1,).
            labels: Labels of each document as zeros and ones, (documents, classes).
        """
        counts = count_ngrams(ids, starts, labels, vocab_size=self.vocab_size, max_n=self.max_n, folds=self.folds)
        frequent = np.sort(np.argsort(-counts.total.sum(0), kind="stable")[: len(self.keys)])
        self.keys.fill_(EMPTY_KEY)
        self.keys[: len(frequent)] = torch.from_numpy(counts.keys[frequent])
        by_class, total = counts.by_class[:, frequent], counts.total[:, frequent]
        tables = torch.zeros(self.folds + 1, *self.ratios.shape)
        for k in range(self.folds):
            ratios = _log_ratios(by_class.sum(0) - by_class[k], total.sum(0) - total[k])
            tables[k, 1 : len(frequent) + 1] = ratios
        tables[-1, 1 : len(frequent) + 1] = _log_ratios(by_class.sum(0), total.sum(0))
        self.held_out = tables[:-1].to(self.ratios)
        self.ratios.copy_(tables[-1])

    def rows(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Table row of each n-gram that starts at each position, (b, n, max_n); 0 for unknown ones."""
        ids = ids.masked_fill(~mask, 0)
        key, rows = ids, []
        for k in range(self.max_n):
            if k:
                following = nn.functional.pad(ids, (0, k))[:, k:]
                # 0 for an n-gram that would extend beyond the end
                key = torch.where((key > 0) & (following > 0), key * self.vocab_size + following, 0)
            row = torch.searchsorted(self.keys, key).clamp(max=len(self.keys) - 1)
            rows.append(torch.where(self.keys[row] == key, row + 1, 0))
        return torch.stack(rows, -1)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Features of each position.

        Args:
            ids: Token ids, (b, n).
            mask: False for padding, (b, n) bool.

        Returns:
            (b, n, max_n, classes).
        """
        rows = self.rows(ids, mask)
        if not self.training:
            return self.ratios[rows] + self.delta(rows)
        if not len(self.held_out):
            raise RuntimeError("the n-grams were not counted; call fit with the training documents first")
        fold = ids.masked_fill(~mask, 0).square().sum(1) % self.folds
        x = self.held_out[fold[:, None, None], rows] + self.delta(rows)
        keep = torch.rand(rows.shape, device=x.device) >= self.dropout
        return x * (keep / (1 - self.dropout))[..., None]


@dataclass(frozen=True)
class NGramCounts:
    """Document counts of n-grams that occur in two documents or more.

    Args:
        keys: Key of each n-gram, in increasing order.
        by_class: Documents of each fold and class with the n-gram, (folds, n-grams, classes).
        total: Documents of each fold with the n-gram, (folds, n-grams).
    """

    keys: np.ndarray
    by_class: np.ndarray
    total: np.ndarray


def count_ngrams(
    ids: np.ndarray, starts: np.ndarray, labels: np.ndarray, *, vocab_size: int, max_n: int, folds: int
) -> NGramCounts:
    """Count the documents of each n-gram.

    A key is an n-gram as a number in base `vocab_size`. No token id is 0, so keys of different lengths differ.
    """
    ids, num_documents, fold = ids.astype(np.int64), len(starts) - 1, document_folds(ids, starts, folds)
    document_of = np.repeat(np.arange(num_documents), np.diff(starts))
    keys, by_class, total = [], [], []
    key = ids
    for k in range(max_n):
        if k:
            key = key[:-1] * vocab_size + ids[k:]
        inside = document_of[: len(key)] == document_of[k:]  # does not extend into the next document
        distinct, ngram_of = np.unique(key[inside], return_inverse=True)
        pairs = np.unique(ngram_of * np.int64(num_documents) + document_of[: len(key)][inside])  # once per document
        ngram, document = pairs // num_documents, pairs % num_documents
        frequent = np.bincount(ngram, minlength=len(distinct)) >= 2
        new_index, selected, n = np.cumsum(frequent) - 1, frequent[ngram], int(frequent.sum())
        ngram, document = new_index[ngram][selected], document[selected]
        cell = fold[document] * n + ngram
        keys.append(distinct[frequent])
        total.append(np.bincount(cell, minlength=folds * n).reshape(folds, n))
        classes = [np.bincount(cell, labels[document, c], folds * n) for c in range(labels.shape[1])]
        by_class.append(np.stack(classes, -1).reshape(folds, n, labels.shape[1]))
    return NGramCounts(np.concatenate(keys), np.concatenate(by_class, 1), np.concatenate(total, 1))


def document_folds(ids: np.ndarray, starts: np.ndarray, folds: int) -> np.ndarray:
    """Fold of each document. `forward` computes the same from the tokens."""
    sums = np.concatenate(([0], np.cumsum(ids.astype(np.int64) ** 2)))
    return np.diff(sums[starts]) % folds


def _log_ratios(by_class: np.ndarray, total: np.ndarray) -> Tensor:
    """r_c of each n-gram, (n-grams, classes); 0 if no document has it."""
    p, q = 1.0 + by_class, 1.0 + total[:, None] - by_class
    ratio = np.log((p / p.sum(0)) / (q / q.sum(0)))
    return torch.from_numpy(np.where(total[:, None] > 0, ratio, 0.0))
