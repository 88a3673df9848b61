"""What naive Bayes knows of the n-grams at each place, counted so that training can believe it.

    r_c[g] = log((p_c[g] / ‖p_c‖₁) / (q_c[g] / ‖q_c‖₁))    p_c = 1 + documents of class c with g,  q_c = 1 + the others
    x[t, k, c] = r_c[g_k(t)] + δ_c[g_k(t)]                  g_k(t) = w_t .. w_{t+k-1},  k = 1..most

r is the log-count ratio of Wang & Manning 2012 (Baselines and Bigrams, eq. 1), δ is trained and starts at zero. A
ratio that was counted with a document says too much about that document: of a pair that stands in two texts it knows
half the answer. What is trained above would lean on rare pairs and fail on new text. So the training part is cut into
`folds`, and in training a document is given the ratios counted without its fold (Breiman 1996, Stacked Regressions);
afterwards all documents count. A document's fold is a function of its words, Σ id² mod folds.

n-grams of one document only, or beyond the `table` most frequent, are not known and give zero. In training each n-gram
of each place is left out with chance `dropout`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.errors import UserError

NEVER = torch.iinfo(torch.int64).max
"""The key of a row of the table that no n-gram has taken."""


class NGramLogRatios(nn.Module):
    """ids (b, n) to (b, n, most, classes). Knows nothing before `fill`."""

    keys: Tensor
    ratios: Tensor
    held_out: Tensor

    def __init__(self, vocab: int, classes: int, *, table: int, most: int = 3, folds: int = 10, dropout: float = 0.3):
        super().__init__()
        check_positive("n-grams", table=table, most=most)
        if folds < 2:
            raise UserError(f"n-grams are counted in 2 folds or more, and were given {folds}")
        if vocab**most >= NEVER:
            raise UserError(f"n-grams of {most} words of a vocabulary of {vocab:,} are too many to number; take fewer")
        self.vocab, self.most, self.folds, self.dropout = vocab, most, folds, dropout
        self.register_buffer("keys", torch.full((table,), NEVER))
        self.register_buffer("ratios", torch.zeros(table + 1, classes))
        self.register_buffer("held_out", torch.zeros(0), persistent=False)  # (folds, table + 1, classes)
        self.learnt = nn.Embedding(table + 1, classes, padding_idx=0)
        nn.init.zeros_(self.learnt.weight)

    @torch.no_grad()
    def fill(self, ids: np.ndarray, starts: np.ndarray, labels: np.ndarray) -> None:
        """Count the training part: flat ids, where each document starts (and the last ends), and which labels each has
        (documents, classes) as zeros and ones."""
        found = count(ids, starts, labels, vocab=self.vocab, most=self.most, folds=self.folds)
        kept = np.sort(np.argsort(-found.all.sum(0), kind="stable")[: len(self.keys)])
        self.keys.fill_(NEVER)
        self.keys[: len(kept)] = torch.from_numpy(found.keys[kept])
        inside, every = found.inside[:, kept], found.all[:, kept]
        tables = torch.zeros(self.folds + 1, *self.ratios.shape)
        for k in range(self.folds):
            tables[k, 1 : len(kept) + 1] = _ratios(inside.sum(0) - inside[k], every.sum(0) - every[k])
        tables[-1, 1 : len(kept) + 1] = _ratios(inside.sum(0), every.sum(0))
        self.held_out = tables[:-1].to(self.ratios)
        self.ratios.copy_(tables[-1])

    def rows(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The row of the table of each n-gram that starts at each place, (b, n, most); 0 for one not known."""
        ids = ids.masked_fill(~mask, 0)
        key, found = ids, []
        for k in range(self.most):
            if k:
                ahead = nn.functional.pad(ids, (0, k))[:, k:]
                key = torch.where((key > 0) & (ahead > 0), key * self.vocab + ahead, 0)  # none goes past the end
            row = torch.searchsorted(self.keys, key).clamp(max=len(self.keys) - 1)
            found.append(torch.where(self.keys[row] == key, row + 1, 0))
        return torch.stack(found, -1)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        rows = self.rows(ids, mask)
        if not self.training:
            return self.ratios[rows] + self.learnt(rows)
        if not len(self.held_out):
            raise RuntimeError("the n-grams were not counted: call fill with the training part first")
        fold = ids.masked_fill(~mask, 0).square().sum(1) % self.folds
        x = self.held_out[fold[:, None, None], rows] + self.learnt(rows)
        kept = torch.rand(rows.shape, device=x.device) >= self.dropout
        return x * (kept / (1 - self.dropout))[..., None]


@dataclass(frozen=True)
class Counts:
    """n-grams that stand in two documents or more, by key in rising order, and in how many documents of each fold: of
    each class (folds, n-grams, classes), of all (folds, n-grams)."""

    keys: np.ndarray
    inside: np.ndarray
    all: np.ndarray


def count(ids: np.ndarray, starts: np.ndarray, labels: np.ndarray, *, vocab: int, most: int, folds: int) -> Counts:
    """A key writes an n-gram as a number in base `vocab`; no id of a word is 0, so lengths do not meet."""
    ids, documents, fold = ids.astype(np.int64), len(starts) - 1, folds_of(ids, starts, folds)
    home = np.repeat(np.arange(documents), np.diff(starts))
    keys, inside, every = [], [], []
    key = ids
    for k in range(most):
        if k:
            key = key[:-1] * vocab + ids[k:]
        whole = home[: len(key)] == home[k:]  # does not reach into the next document
        names, number = np.unique(key[whole], return_inverse=True)
        pairs = np.unique(number * np.int64(documents) + home[: len(key)][whole])  # once a document
        name, document = pairs // documents, pairs % documents
        known = np.bincount(name, minlength=len(names)) >= 2
        name, document, n = (np.cumsum(known) - 1)[name][known[name]], document[known[name]], int(known.sum())
        cell = fold[document] * n + name
        keys.append(names[known])
        every.append(np.bincount(cell, minlength=folds * n).reshape(folds, n))
        by_class = [np.bincount(cell, labels[document, c], folds * n) for c in range(labels.shape[1])]
        inside.append(np.stack(by_class, -1).reshape(folds, n, labels.shape[1]))
    return Counts(np.concatenate(keys), np.concatenate(inside, 1), np.concatenate(every, 1))


def folds_of(ids: np.ndarray, starts: np.ndarray, folds: int) -> np.ndarray:
    """The fold of each document, as `forward` finds it again from the words alone."""
    sums = np.concatenate(([0], np.cumsum(ids.astype(np.int64) ** 2)))
    return np.diff(sums[starts]) % folds


def _ratios(inside: np.ndarray, every: np.ndarray) -> Tensor:
    p, q = 1.0 + inside, 1.0 + every[:, None] - inside
    ratio = np.log((p / p.sum(0)) / (q / q.sum(0)))
    return torch.from_numpy(np.where(every[:, None] > 0, ratio, 0.0))
