"""Beam search: of all that might be said, the few likeliest beginnings are kept and gone on from.

    score(y) = Σ_t log P(y_t | y_<t, x) / |y|^α        |y| counts the end; α: `alpha` (Wu et al. 2016, section 7)

Of each sentence 2w candidates are looked at, so that w are left when some end. A candidate that ends among the first w
is a translation; when a sentence has w of them it is done, and the best by its score is taken. One beam is greedy.

Bookkeeping is in arrays over all sentences; what is done for a single one is done when a beam of it ends, and not at
each word.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from regard import kernels
from regard.decoding.seq2seq_decoders import BLOCK, Speaker
from regard.errors import UserError


@dataclass(frozen=True)
class Beam:
    """How many beams, how much length is made up for, and how many translations of each source are wanted."""

    beams: int = 5
    alpha: float = 1.0
    best: int = 1

    def __post_init__(self) -> None:
        if self.beams < 1:
            raise UserError(f"a search wants 1 beam or more; given {self.beams}")
        if not 1 <= self.best <= self.beams:
            raise UserError(f"{self.beams} beams give from 1 to {self.beams} translations; given {self.best}")
        if not 0 <= self.alpha < float("inf"):
            raise UserError(f"alpha, the power of the length, is 0 or above; given {self.alpha}")


@dataclass
class Said:
    """Words without the end, the score, the sum of log chances, and whether it ended by itself."""

    ids: list[int]
    score: float
    logp: float
    ended: bool


@dataclass
class _End:
    """A translation as the place where it stands in the history."""

    score: float
    logp: float
    step: int
    beam: int
    ended: bool


@dataclass
class _History:
    """What each beam of each sentence said at each step, and which beam it went on from."""

    words: list[np.ndarray] = field(default_factory=list)
    parents: list[np.ndarray] = field(default_factory=list)

    def add(self, count: int, rows: np.ndarray, words: np.ndarray, parents: np.ndarray) -> None:
        for kept, new in ((self.words, words), (self.parents, parents)):
            whole = np.zeros((count, new.shape[1]), np.int64)
            whole[rows] = new
            kept.append(whole)

    def trace(self, sentence: int, end: _End) -> list[int]:
        """The words up to and with a step, back along the parents."""
        ids, beam = [], end.beam
        for step in range(end.step, -1, -1):
            ids.append(int(self.words[step][sentence, beam]))
            beam = int(self.parents[step][sentence, beam])
        return ids[::-1]


def search(
    way: Speaker, source: Tensor, mask: Tensor | None, how: Beam, *, begin: int, end: int, limits: np.ndarray
) -> list[list[Said]]:
    """The best translations of sources (b, m), each of at most `limits` (b,) words besides the end."""
    b, w = len(source), how.beams
    limits = np.asarray(limits)
    history, ends = _History(), [[] for _ in range(b)]
    rows, done = np.arange(b), np.zeros(b, bool)
    logits = way.read(source, mask, begin, int(limits.max()), w)
    scores = np.zeros((b, 1), np.float32)
    for step in range(int(limits.max()) + 1):
        values, parents, words = candidates(logits, scores, 2 * w)
        if not np.isfinite(values[:, -1]).all():  # fewer words than candidates: the rest can only end
            words = np.where(np.isfinite(values), words, end)
        final = words == end
        last = limits[rows] == step
        ending = final.any()  # at most steps nothing ends, and there is nothing to sort out
        if ending:
            _note(ends, final[:, :w] & np.isfinite(values[:, :w]), values, parents, rows, done, step, how)
            done |= np.array([len(ends[row]) >= w for row in rows])
        if last.any():  # what has not ended by now is taken as it is
            _cut(ends, scores, rows, last & ~done, step, how)
            done |= last
        if done.all():
            break
        if ending:
            go = np.argsort(final, 1, kind="stable")  # the first w that do not end
            values = np.where(final, np.float32(-np.inf), values)
            values, parents, words = (np.take_along_axis(part, go, 1) for part in (values, parents, words))
        values, parents, words = (np.ascontiguousarray(part[:, :w]) for part in (values, parents, words))
        history.add(b, rows, words, parents)
        if done.sum() >= 0.25 * len(done):  # leaving rows behind costs time too
            kept = np.flatnonzero(~done)
            way.select(torch.from_numpy(kept))
            rows, done = rows[kept], done[kept]
            values, parents, words = values[kept], parents[kept], words[kept]
        scores = values
        logits = way.step(torch.from_numpy(words), torch.from_numpy(parents))
    return [_best(sentence, found, history, how) for sentence, found in enumerate(ends)]


def candidates(logits: Tensor, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The k likeliest ways to go on: logits (b, w, vocab) and scores (b, w) of beams to scores, beams and words, each
    (b, k). The likeliest words stand in the blocks with the greatest maxima, so that only these are looked into; by
    numpy, where there is no kernel: it takes a fraction of torch's time for so few numbers."""
    if kernels.ready(logits):
        return kernels.likeliest(logits, scores, k)
    b, w, vocab = logits.shape
    blocks, row = vocab // BLOCK, np.arange(b)[:, None]
    chances = logits.log_softmax(-1).view(b, w, blocks, BLOCK)
    tops = (chances.amax(-1).numpy() + scores[..., None]).reshape(b, w * blocks)
    chosen = _greatest(tops, min(k, w * blocks))
    inside = chances.numpy().reshape(b, w * blocks, BLOCK)[row, chosen] + scores[row, chosen // blocks][..., None]
    inside = inside.reshape(b, -1)
    place = _greatest(inside, k)
    values = inside[row, place]
    order = np.argsort(-values, 1, kind="stable")
    place, values = place[row, order], values[row, order]
    block = chosen[row, place // BLOCK]
    return values, block // blocks, block % blocks * BLOCK + place % BLOCK


def _greatest(values: np.ndarray, k: int) -> np.ndarray:
    """Places of the k greatest of each row, in any order."""
    n = values.shape[1]
    return np.argpartition(values, n - k, 1)[:, n - k :] if k < n else np.broadcast_to(np.arange(n), values.shape)


def _note(
    ends: list[list[_End]],
    final: np.ndarray,
    values: np.ndarray,
    parents: np.ndarray,
    rows: np.ndarray,
    done: np.ndarray,
    step: int,
    how: Beam,
) -> None:
    """Write down the candidates that end."""
    for i, j in zip(*np.nonzero(final & ~done[:, None]), strict=True):
        if len(ends[rows[i]]) < how.beams:
            logp = float(values[i, j])
            ends[rows[i]].append(_End(logp / (step + 1) ** how.alpha, logp, step - 1, int(parents[i, j]), True))


def _cut(ends: list[list[_End]], scores: np.ndarray, rows: np.ndarray, last: np.ndarray, step: int, how: Beam) -> None:
    """Sentences that have come to their limit: their beams are taken without an end."""
    for i in np.flatnonzero(last):
        for beam, logp in enumerate(scores[i].tolist()):  # the likeliest comes first
            if len(ends[rows[i]]) < how.beams and np.isfinite(logp):
                ends[rows[i]].append(_End(logp / max(step, 1) ** how.alpha, logp, step - 1, beam, False))


def _best(sentence: int, ends: list[_End], history: _History, how: Beam) -> list[Said]:
    """Translations that ended by themselves come first."""
    order = sorted(ends, key=lambda end: (not end.ended, -end.score))[: how.best]
    return [Said(history.trace(sentence, end), end.score, end.logp, end.ended) for end in order]
