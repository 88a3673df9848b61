"""Beam search: the most probable beginnings of each sentence are kept and continued.

    score(y) = Σ_t log P(y_t | y_<t, x) / |y|^α        |y| includes [EOS]; α: `alpha` (Wu et al. 2016, section 7)

2w candidates of each sentence are considered, so that w are left when some end. A candidate that ends among the first w
is a hypothesis. A sentence with w hypotheses is done, and the one with the best score is returned. A beam size of 1 is
greedy search.

The bookkeeping is in arrays over all sentences. Work per sentence is done only when one of its beams ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from regard import kernels
from regard.decoding.seq2seq_decoders import BLOCK, Seq2SeqDecoder
from regard.errors import UserError


@dataclass(frozen=True)
class BeamSearch:
    """Options of beam search.

    Args:
        beam_size: Number of beams; 1 is greedy.
        alpha: Exponent of the length in the score; 0 favours short hypotheses.
        num_hypotheses: How many hypotheses to return for each source.
    """

    beam_size: int = 5
    alpha: float = 1.0
    num_hypotheses: int = 1

    def __post_init__(self) -> None:
        if self.beam_size < 1:
            raise UserError(f"the beam size must be at least 1, got {self.beam_size}")
        if not 1 <= self.num_hypotheses <= self.beam_size:
            raise UserError(
                f"num_hypotheses must be between 1 and the beam size {self.beam_size}, got {self.num_hypotheses}"
            )
        if not 0 <= self.alpha < float("inf"):
            raise UserError(f"alpha, the exponent of the length, must be at least 0, got {self.alpha}")


@dataclass
class Hypothesis:
    """A decoded sequence.

    Args:
        ids: Token ids without [EOS].
        score: Length-normalized log probability.
        log_prob: Sum of the log probabilities of the tokens.
        ended: Whether [EOS] was reached before the length limit.
    """

    ids: list[int]
    score: float
    log_prob: float
    ended: bool


@dataclass
class _End:
    """A hypothesis as the step and the beam of its last token in the history."""

    score: float
    log_prob: float
    step: int
    beam: int
    ended: bool


@dataclass
class _History:
    """The token of each beam of each sentence at each step, and which beam it continued."""

    ids: list[np.ndarray] = field(default_factory=list)
    parents: list[np.ndarray] = field(default_factory=list)

    def add(self, count: int, rows: np.ndarray, ids: np.ndarray, parents: np.ndarray) -> None:
        for history, values in ((self.ids, ids), (self.parents, parents)):
            all_rows = np.zeros((count, values.shape[1]), np.int64)
            all_rows[rows] = values
            history.append(all_rows)

    def trace(self, sentence: int, end: _End) -> list[int]:
        """The token ids up to an end, followed back along the parents."""
        ids, beam = [], end.beam
        for step in range(end.step, -1, -1):
            ids.append(int(self.ids[step][sentence, beam]))
            beam = int(self.parents[step][sentence, beam])
        return ids[::-1]


def run_beam_search(
    decoder: Seq2SeqDecoder,
    source: Tensor,
    mask: Tensor | None,
    options: BeamSearch,
    *,
    bos_id: int,
    eos_id: int,
    max_lengths: np.ndarray,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each source.

    Args:
        source: (b, m).
        mask: (b, m), True for real tokens; None if there is no padding.
        max_lengths: Maximum number of tokens without [EOS] for each source, (b,).
    """
    b, w = len(source), options.beam_size
    max_lengths = np.asarray(max_lengths)
    history, ends = _History(), [[] for _ in range(b)]
    rows, done = np.arange(b), np.zeros(b, bool)
    logits = decoder.start(source, mask, bos_id, int(max_lengths.max()), w)
    scores = np.zeros((b, 1), np.float32)
    for step in range(int(max_lengths.max()) + 1):
        values, parents, ids = top_candidates(logits, scores, 2 * w)
        if not np.isfinite(values[:, -1]).all():  # fewer tokens than candidates: the rest can only end
            ids = np.where(np.isfinite(values), ids, eos_id)
        final = ids == eos_id
        at_limit = max_lengths[rows] == step
        some_end = final.any()  # nothing ends at most steps, and nothing must be sorted
        if some_end:
            finite = np.isfinite(values[:, :w])
            _add_ended(ends, final[:, :w] & finite, values, parents, rows, done, step, options)
            done |= np.array([len(ends[row]) >= w for row in rows])
        if at_limit.any():  # beams that have not ended yet are returned as they are
            _add_truncated(ends, scores, rows, at_limit & ~done, step, options)
            done |= at_limit
        if done.all():
            break
        if some_end:
            order = np.argsort(final, 1, kind="stable")  # the first w that do not end
            values = np.where(final, np.float32(-np.inf), values)
            values, parents, ids = (np.take_along_axis(part, order, 1) for part in (values, parents, ids))
        values, parents, ids = (np.ascontiguousarray(part[:, :w]) for part in (values, parents, ids))
        history.add(b, rows, ids, parents)
        if done.sum() >= 0.25 * len(done):  # removing rows costs time too
            active = np.flatnonzero(~done)
            decoder.select(torch.from_numpy(active))
            rows, done = rows[active], done[active]
            values, parents, ids = values[active], parents[active], ids[active]
        scores = values
        logits = decoder.step(torch.from_numpy(ids), torch.from_numpy(parents))
    return [_best_hypotheses(sentence, each, history, options) for sentence, each in enumerate(ends)]


def top_candidates(logits: Tensor, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The k most probable continuations of the beams of each sentence.

    The most probable tokens are in the blocks with the greatest maxima, so only these are searched. Uses numpy without
    the kernel, which is much faster than torch for so few numbers.

    Args:
        logits: (b, w, vocab).
        scores: Score of each beam, (b, w).

    Returns:
        Scores, beams and token ids, each (b, k).
    """
    if kernels.can_use_kernels(logits):
        return kernels.top_candidates(logits, scores, k)
    b, w, vocab = logits.shape
    blocks, row = vocab // BLOCK, np.arange(b)[:, None]
    log_probs = logits.log_softmax(-1).view(b, w, blocks, BLOCK)
    maxima = (log_probs.amax(-1).numpy() + scores[..., None]).reshape(b, w * blocks)
    best_blocks = _top_k(maxima, min(k, w * blocks))
    inside = log_probs.numpy().reshape(b, w * blocks, BLOCK)[row, best_blocks]
    inside = (inside + scores[row, best_blocks // blocks][..., None]).reshape(b, -1)
    index = _top_k(inside, k)
    values = inside[row, index]
    order = np.argsort(-values, 1, kind="stable")
    index, values = index[row, order], values[row, order]
    block = best_blocks[row, index // BLOCK]
    return values, block // blocks, block % blocks * BLOCK + index % BLOCK


def _top_k(values: np.ndarray, k: int) -> np.ndarray:
    """Indices of the k greatest values of each row, in any order."""
    n = values.shape[1]
    return np.argpartition(values, n - k, 1)[:, n - k :] if k < n else np.broadcast_to(np.arange(n), values.shape)


def _add_ended(
    ends: list[list[_End]],
    final: np.ndarray,
    values: np.ndarray,
    parents: np.ndarray,
    rows: np.ndarray,
    done: np.ndarray,
    step: int,
    options: BeamSearch,
) -> None:
    """Add the candidates that end at this step."""
    for i, j in zip(*np.nonzero(final & ~done[:, None]), strict=True):
        if len(ends[rows[i]]) < options.beam_size:
            log_prob = float(values[i, j])
            score = log_prob / (step + 1) ** options.alpha
            ends[rows[i]].append(_End(score, log_prob, step - 1, int(parents[i, j]), True))


def _add_truncated(
    ends: list[list[_End]], scores: np.ndarray, rows: np.ndarray, at_limit: np.ndarray, step: int, options: BeamSearch
) -> None:
    """Add the beams of sentences that have reached their maximum length, without an end."""
    for i in np.flatnonzero(at_limit):
        for beam, log_prob in enumerate(scores[i].tolist()):  # the most probable comes first
            if len(ends[rows[i]]) < options.beam_size and np.isfinite(log_prob):
                score = log_prob / max(step, 1) ** options.alpha
                ends[rows[i]].append(_End(score, log_prob, step - 1, beam, False))


def _best_hypotheses(sentence: int, ends: list[_End], history: _History, options: BeamSearch) -> list[Hypothesis]:
    """Hypotheses with [EOS] come first."""
    order = sorted(ends, key=lambda end: (not end.ended, -end.score))[: options.num_hypotheses]
    return [Hypothesis(history.trace(sentence, end), end.score, end.log_prob, end.ended) for end in order]
