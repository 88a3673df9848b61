"""Extractive question answering: training objective and prediction of answer spans.

    loss = -log Σ over occurrences (s, e) of the answer of start[s] · end[e]

In training, words are replaced by [UNK] with probability `drop` (capitalized words with 2 · `drop`), so that the reader
learns from the context and does not memorize the answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.data import counter_rng
from regard.data.batches import pad_rows, plan_batches
from regard.data.qa_passages import MAX_ANSWER_WORDS, Passage
from regard.data.tokenizer import SEP, UNK
from regard.training.objective import LossTerm

_DROP_PURPOSE = 41  # stream of random numbers


@dataclass(frozen=True)
class PassageBatch:
    """A padded batch of passages.

    Attributes:
        ids: (b, n).
        shapes: (b, n).
        in_name: (b, n).
        mask: (b, n), True on real tokens.
        allowed: (b, n), True where an answer may start or end.
        spans: (k, 3): row, first and last position of each occurrence of an answer.
        tokens: Number of real tokens.
    """

    ids: Tensor
    shapes: Tensor
    in_name: Tensor
    mask: Tensor
    allowed: Tensor
    spans: Tensor
    tokens: int

    @property
    def counts(self) -> dict[str, float]:
        return {"answers": float(len(self.ids))}


class ExtractiveQAObjective:
    """Training objective of an open book. Validation counts exact matches with `answers`."""

    monitor = "exact"
    mode: Literal["max", "min"] = "max"

    def __init__(
        self,
        train: Sequence[Passage],
        valid: Sequence[Passage],
        answers: Sequence[str],
        *,
        batch_tokens: int,
        seed: int,
        drop: float = 0.2,
    ):
        self.train, self.valid, self.answers = train, valid, answers
        self.batch_tokens, self.seed, self.drop = batch_tokens, seed, drop

    def plan(self, epoch: int) -> list[np.ndarray]:
        lengths = [len(passage) for passage in self.train]
        return plan_batches(lengths, self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, indices: np.ndarray, epoch: int) -> PassageBatch:
        batch = collate([self.train[i] for i in indices])
        uniforms = counter_rng.uniform(self.seed, epoch, _DROP_PURPOSE, indices, batch.ids.shape[1])
        is_capitalized = (batch.shapes.numpy() == 2) | (batch.shapes.numpy() == 3)
        is_dropped = uniforms < np.where(is_capitalized, 2 * self.drop, self.drop)
        batch.ids[torch.from_numpy(is_dropped & (batch.ids.numpy() > SEP))] = UNK  # special tokens stay
        return batch

    def loss(self, model: nn.Module, batch: PassageBatch) -> Mapping[str, LossTerm]:
        row, first, last = batch.spans.unbind(1)
        probabilities = predict_ends(model, batch)
        span_probabilities = probabilities[row, 0, first] * probabilities[row, 1, last]
        total = torch.zeros(len(batch.ids), dtype=span_probabilities.dtype, device=span_probabilities.device)
        total = total.index_add(0, row, span_probabilities)
        return {"answers": LossTerm(-total.clamp_min(1e-9).log().sum())}

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        spans = predict_spans(model, self.valid)
        correct = [span.text == answer for span, answer in zip(spans, self.answers, strict=True)]
        no_answer = [span.no_answer > span.probability for span in spans]
        return {"exact": float(np.mean(correct)), "none": float(np.mean(no_answer))}


@dataclass(frozen=True)
class AnswerSpan:
    """The most likely answer in a passage.

    Attributes:
        text: Text of the span.
        probability: Probability of the span.
        first: Position of its first word.
        last: Position of its last word.
        weights: Attention weight of each word of the sentence, mean of start and end.
        no_answer: Probability that the sentence does not contain the answer.
    """

    text: str
    probability: float
    first: int
    last: int
    weights: list[float]
    no_answer: float


def predict_ends(model: nn.Module, batch: PassageBatch) -> Tensor:
    """Return the probability of each position to be the start and the end of the answer, (b, 2, n)."""
    return model(batch.ids, batch.shapes, batch.in_name, batch.mask, batch.allowed)


@torch.no_grad()
def predict_spans(
    model: nn.Module, passages: Sequence[Passage], *, batch_tokens: int = 8192, max_words: int = MAX_ANSWER_WORDS
) -> list[AnswerSpan]:
    """Return the most likely span of at most `max_words` words of each passage."""
    device = next(model.parameters()).device
    spans: dict[int, AnswerSpan] = {}
    for indices in plan_batches([len(p) for p in passages], batch_tokens, seed=0, epoch=0, shuffle=False):
        batch = collate([passages[i] for i in indices])
        tensors: dict[str, Any] = {k: v.to(device) for k, v in vars(batch).items() if isinstance(v, Tensor)}
        probabilities = predict_ends(model, PassageBatch(**tensors, tokens=batch.tokens))
        start, end = probabilities[:, 0], probabilities[:, 1]
        n = start.shape[1]
        joint = start[:, :, None] * end[:, None, :]
        gap = torch.arange(n, device=device)[None, :] - torch.arange(n, device=device)[:, None]
        is_span = (gap >= 0) & (gap < max_words)
        is_span[0] = False  # [BOS] is not a word
        joint = joint * is_span
        best = joint.flatten(1).argmax(1)
        for row, i in enumerate(indices.tolist()):
            passage, (first, last) = passages[i], divmod(int(best[row]), n)
            weights = probabilities[row].mean(0)[passage.start : len(passage)].tolist()
            probability, no_answer = float(joint[row, first, last]), float(start[row, 0] * end[row, 0])
            spans[i] = AnswerSpan(passage.text(first, last), probability, first, last, weights, no_answer)
    return [spans[i] for i in range(len(passages))]


def collate(passages: Sequence[Passage]) -> PassageBatch:
    """Pad passages to a batch."""
    ids, mask = pad_rows([passage.ids for passage in passages])
    shapes, in_name = (pad_rows([getattr(p, name) for p in passages])[0] for name in ("shapes", "in_name"))
    positions = np.arange(ids.shape[1])
    starts = np.array([passage.start for passage in passages])[:, None]
    allowed = mask & ((positions >= starts) | (positions == 0))
    spans = [(row, first, last) for row, passage in enumerate(passages) for first, last in passage.spans]
    tensors = map(torch.from_numpy, (ids, shapes, in_name, mask, allowed, np.array(spans, np.int64)))
    return PassageBatch(*tensors, tokens=int(mask.sum()))
