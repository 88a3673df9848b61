"""Which word comes next: the likeliest, or one drawn from the chances of all, of the top k, or of the top p.

    p = softmax(logits / temperature)        temperature 0 takes the likeliest
    top k: only the k likeliest words (Fan et al. 2018, section 5.1)
    top p: only the fewest words that together have the chance p (Holtzman et al. 2020, section 3.1), after top k

A draw is the inverse of the summed chances at one number in [0, 1). The numbers of a text come from the seed, its
prompt and its number among the samples, and from nothing else: whoever shares its batch does not change what is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.errors import UserError

_FEW = 256
"""How many words top p looks at before it sorts them all, which is slow."""


@dataclass(frozen=True)
class Sampling:
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise UserError(f"the temperature is 0 (always the likeliest word) or above; given {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise UserError(f"top k wants 1 word or more to choose from; given {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"top p is a chance above 0 and at most 1; given {self.top_p}")
        if self.seed < 0:
            raise UserError(f"a seed is a number from 0 on; given {self.seed}")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0 or self.top_k == 1

    def numbers(self, prompt: Sequence[int], sample: int, count: int) -> np.ndarray:
        """The numbers in [0, 1) that draw the words of one text."""
        return np.random.default_rng([self.seed, sample, *prompt]).random(count, np.float32)

    def choose(self, logits: Tensor, numbers: np.ndarray | None) -> Tensor:
        """The next word of each row: logits (b, vocab) and a number for each row to (b,)."""
        if self.greedy or numbers is None:
            return likeliest(logits)
        number = torch.from_numpy(numbers).to(logits)[:, None]
        vocab = logits.shape[-1]
        if self.top_k is not None:
            top, words = likeliest_few(logits, min(self.top_k, vocab))
            return _draw(_within((top / self.temperature).softmax(-1), self.top_p), number, words)
        logits = logits / self.temperature
        if self.top_p is None or self.top_p == 1.0:
            return _draw(logits.softmax(-1), number)
        top, words = likeliest_few(logits, min(_FEW, vocab))
        chances = (top - logits.logsumexp(-1, keepdim=True)).exp()
        if vocab > _FEW and bool((chances.sum(-1) < self.top_p).any()):
            chances, words = logits.softmax(-1).sort(-1, descending=True)
        return _draw(_within(chances, self.top_p), number, words)


GREEDY = Sampling(temperature=0.0)


def likeliest(logits: Tensor) -> Tensor:
    """argmax over the words; numpy's is many times as fast as torch's on a CPU."""
    return torch.from_numpy(logits.numpy().argmax(-1)) if logits.device.type == "cpu" else logits.argmax(-1)


def likeliest_few(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """topk over the words, the likeliest first; on a CPU by numpy too."""
    if logits.device.type != "cpu":
        return logits.topk(k)
    array = logits.numpy()
    few = np.argpartition(array, array.shape[-1] - k, -1)[:, -k:]
    order = np.argsort(-np.take_along_axis(array, few, -1), -1)
    words = np.take_along_axis(few, order, -1)
    return torch.from_numpy(np.take_along_axis(array, words, -1)), torch.from_numpy(words)


def _within(chances: Tensor, p: float | None) -> Tensor:
    """Chances (b, k), the greatest first, of the fewest words that reach p; the others become zero."""
    if p is None:
        return chances
    before = chances.cumsum(-1) - chances
    return chances.masked_fill(before >= p, 0.0)


def _draw(chances: Tensor, number: Tensor, words: Tensor | None = None) -> Tensor:
    """Chances (b, k), which need not sum to one, and numbers (b, 1) to a word for each row."""
    summed = chances.cumsum(-1)
    total = summed[:, -1:]
    # Below the total even after rounding, so that the word found is one that adds something to the sum.
    number = torch.minimum(number * total, total.nextafter(torch.zeros_like(total)))
    found = torch.searchsorted(summed, number, right=True)
    return (found if words is None else words.gather(-1, found))[:, 0]
