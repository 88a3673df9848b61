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
        """The next word of each row: logits (b, vocab) and a number for each row to (b,). By numpy where words are few,
        which takes a fraction of torch's time for them."""
        array = logits.float().cpu().numpy()
        if self.greedy or numbers is None:
            words = array.argmax(-1)
        elif self.top_k is not None:
            words = self._among_few(array, _likeliest(array, min(self.top_k, array.shape[-1])), numbers)
        elif self.top_p is None or self.top_p == 1.0:
            return _draw_any((logits / self.temperature).softmax(-1), torch.from_numpy(numbers).to(logits))
        else:
            words = self._top_p(array, numbers)
        return torch.from_numpy(words).to(logits.device)

    def _among_few(self, logits: np.ndarray, words: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Of these words (b, k), the likeliest first."""
        few = np.take_along_axis(logits, words, -1)
        chances = np.exp((few - few[:, :1]) / self.temperature)
        if self.top_p is not None:
            chances = _within(chances, self.top_p * chances.sum(-1, keepdims=True))
        return np.take_along_axis(words, _draw(chances, numbers)[:, None], -1)[:, 0]

    def _top_p(self, logits: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Without top k: a few words reach p as a rule, and only where they do not all are sorted, which is slow."""
        assert self.top_p is not None
        words = _likeliest(logits, min(_FEW, logits.shape[-1]))
        few = np.take_along_axis(logits, words, -1)
        most = few[:, :1]
        wanted = self.top_p * np.exp((logits - most) / self.temperature).sum(-1, keepdims=True)
        chances = np.exp((few - most) / self.temperature)
        if (chances.sum(-1, keepdims=True) < wanted).any():
            words = np.argsort(-logits, -1)
            chances = np.exp((np.take_along_axis(logits, words, -1) - most) / self.temperature)
        return np.take_along_axis(words, _draw(_within(chances, wanted), numbers)[:, None], -1)[:, 0]


GREEDY = Sampling(temperature=0.0)


def _likeliest(logits: np.ndarray, k: int) -> np.ndarray:
    """The k likeliest words of each row, the likeliest first."""
    few = np.argpartition(logits, logits.shape[-1] - k, -1)[:, -k:]
    order = np.argsort(-np.take_along_axis(logits, few, -1), -1)
    return np.take_along_axis(few, order, -1)


def _within(chances: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Chances (b, k), the greatest first, of the fewest words that reach what is wanted; the others become zero."""
    return np.where(chances.cumsum(-1) - chances < wanted, chances, 0.0)


def _draw(chances: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Chances (b, k), which need not sum to one, and numbers (b,) to a place in each row. Summed in float64, so that a
    number below one never leads past the last word that has a chance."""
    summed = chances.cumsum(-1, dtype=np.float64)
    return (summed <= numbers[:, None] * summed[:, -1:]).sum(-1)


def _draw_any(chances: Tensor, numbers: Tensor) -> Tensor:
    """The same over all words, which torch sums faster."""
    summed = chances.cumsum(-1)
    total = summed[:, -1:]
    # Below the total even after rounding, so that the word found is one that adds something to the sum.
    number = torch.minimum(numbers[:, None] * total, total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(summed, number, right=True)[:, 0]
