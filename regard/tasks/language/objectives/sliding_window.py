"""Score a text with a sliding window, each token once.

    window k reads tokens k·stride .. k·stride + block_size and scores `stride` of them; the first window also scores
    the tokens before them, the last also those after them

For a causal model the scored tokens are at the end of the window, so that each has at least block_size - stride tokens
of context (except at the beginning of the text); for a bidirectional model they are in its middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from regard.data.corpus import Corpus
from regard.data.tokenizer import UNK
from regard.tasks.language.objectives.token_objective import to_tensor


def plan_windows(num_tokens: int, block_size: int, stride: int, lead: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Plan the windows. They have min(block_size, num_tokens) tokens.

    Args:
        num_tokens: Tokens of the text.
        block_size: Tokens of a window.
        stride: Distance between windows.
        lead: Tokens of a window before the scored ones; lead + stride <= block_size.

    Returns:
        The start of each window, the first token that it scores, and the end of those.
    """
    block_size = min(block_size, num_tokens)
    count = 1 + max(0, -(-(num_tokens - block_size) // stride))
    starts = np.minimum(np.arange(count) * stride, num_tokens - block_size)
    edges = np.concatenate([[0], np.arange(1, count) * stride + lead, [num_tokens]])
    return starts, edges[:-1], edges[1:]


def read_windows(
    corpus: Corpus, block_size: int, stride: int, lead: int, batch_size: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Batches of windows: their starts (b,), their tokens (b, n), and which of them are scored (b, n)."""
    starts, first, end = plan_windows(corpus.num_tokens, block_size, stride, lead)
    length = min(block_size, corpus.num_tokens)
    for i in range(0, len(starts), batch_size):
        rows = slice(i, i + batch_size)
        positions = starts[rows, None] + np.arange(length)
        scored = (positions >= first[rows, None]) & (positions < end[rows, None])
        yield starts[rows], corpus.read(starts[rows], length), scored


@dataclass(frozen=True)
class ScoreTotals:
    """Sums over the scored tokens of a text.

    Attributes:
        nats: Sum of -log p.
        correct: Tokens that are the most probable one.
        count: Scored tokens.
        unknown: How many of them are [UNK].
    """

    nats: float
    correct: int
    count: int
    unknown: int = 0

    @property
    def loss(self) -> float:
        return self.nats / max(self.count, 1)

    @property
    def perplexity(self) -> float:
        return float(np.exp(min(self.loss, 700.0)))

    @property
    def accuracy(self) -> float:
        return self.correct / max(self.count, 1)

    def unknown_fraction(self, kind: str) -> dict[str, float]:
        """The metric "unknown", the fraction of [UNK]; none for byte-level BPE, which knows every text."""
        return {} if kind == "bpe" else {"unknown": self.unknown / max(self.count, 1)}


@torch.no_grad()
def score_windows(model: nn.Module, windows: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> ScoreTotals:
    """Score batches of windows.

    Args:
        model: Called as model(ids, logits_at=flat indices (k,)); returns logits (k, vocab).
        windows: Batches of input ids, target ids and which targets are scored, each (b, n).
    """
    device = get_device(model)
    nats, correct, count, unknown = 0.0, 0, 0, 0
    for ids, targets, scored in windows:
        logits_at = np.flatnonzero(scored)
        if not len(logits_at):
            continue
        truth = to_tensor(targets.reshape(-1)[logits_at]).to(device)
        logits = model(to_tensor(ids).to(device), logits_at=to_tensor(logits_at).to(device)).float()
        nats += F.cross_entropy(logits, truth, reduction="none").double().sum().item()
        correct += int((logits.argmax(-1) == truth).sum())
        count += len(logits_at)
        unknown += int((truth == UNK).sum())
    return ScoreTotals(nats, correct, count, unknown)


def get_device(model: nn.Module) -> torch.device:
    """The device of the parameters."""
    return next(model.parameters()).device
