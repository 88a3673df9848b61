"""Score a text with a window that slides over it, each token once.

    window k reads tokens k·stride .. k·stride + block and scores `stride` of them, the first window also what stands
    before, the last also what comes after

Read causally, the scored ones stand at the window's end, so that each has at least block - stride tokens before it
(but for the first ones of the text); read both ways, they stand in its middle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.corpus import Corpus
from regard.data.tokenizer import UNK
from regard.tasks.language.objectives.token_objective import tensor


def windows(tokens: int, block: int, stride: int, lead: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where each window starts, and from which to which token it scores, of which `lead` stand before. Windows are
    min(block, tokens) long; lead + stride <= block, or tokens would be left out."""
    block = min(block, tokens)
    count = 1 + max(0, -(-(tokens - block) // stride))
    starts = np.minimum(np.arange(count) * stride, tokens - block)
    edges = np.concatenate([[0], np.arange(1, count) * stride + lead, [tokens]])
    return starts, edges[:-1], edges[1:]


def batches(
    corpus: Corpus, block: int, stride: int, lead: int, rows: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Starts (b,), tokens (b, n) and which of them are scored (b, n), a few windows at a time."""
    starts, first, stop = windows(corpus.num_tokens, block, stride, lead)
    length = min(block, corpus.num_tokens)
    for i in range(0, len(starts), rows):
        part = slice(i, i + rows)
        places = starts[part, None] + np.arange(length)
        scored = (places >= first[part, None]) & (places < stop[part, None])
        yield starts[part], corpus.read(starts[part], length), scored


Logits = Callable[[Tensor, Tensor], Tensor]


class Scored:
    """Nats, right guesses and words of a text, and how many of these are not known."""

    def __init__(self, nats: float, right: int, count: int, unknown: int = 0) -> None:
        self.nats, self.right, self.count, self._unknown = nats, right, count, unknown

    @property
    def loss(self) -> float:
        return self.nats / max(self.count, 1)

    @property
    def perplexity(self) -> float:
        return float(np.exp(min(self.loss, 700.0)))

    @property
    def accuracy(self) -> float:
        return self.right / max(self.count, 1)

    def unknown(self, kind: str) -> dict[str, float]:
        """The share of [UNK]; nothing with bytes, which know every text."""
        return {} if kind == "bpe" else {"unknown": self._unknown / max(self.count, 1)}


@torch.no_grad()
def score(logits: Logits, device: torch.device, given: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Scored:
    """Add up over batches of (ids that are read, words that are wanted, which places count); `logits` gives those at
    the places (k,) of ids (b, n), counted through all rows."""
    total, right, count, unknown = 0.0, 0, 0, 0
    for ids, wanted, counted in given:
        places = np.flatnonzero(counted)
        if not len(places):
            continue
        truth = tensor(wanted.reshape(-1)[places]).to(device)
        found = logits(tensor(ids).to(device), tensor(places).to(device)).float()
        total += F.cross_entropy(found, truth, reduction="none").double().sum().item()
        right += int((found.argmax(-1) == truth).sum())
        count += len(places)
        unknown += int((truth == UNK).sum())
    return Scored(total, right, count, unknown)


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
