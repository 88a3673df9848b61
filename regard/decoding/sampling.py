"""Choose the next token: the most probable one, or one sampled from all tokens, from the top k or from the top p.

    p = softmax(logits / temperature)        temperature 0 takes the most probable token
    top k: only the k most probable tokens (Fan et al. 2018, section 5.1)
    top p: only the fewest tokens whose probabilities sum to at least p (Holtzman et al. 2020, section 3.1), after top k

A token is sampled by inverting the cumulative distribution at a random number in [0, 1). The random numbers of a text
depend on the seed, its prompt and its index among the samples only, and not on the rest of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.errors import UserError

_TOP_P_CANDIDATES = 256
"""How many tokens top p considers before it sorts them all, which is slow."""


@dataclass(frozen=True)
class Sampling:
    """Options of sampling.

    Args:
        temperature: Divides the logits; 0 is greedy.
        top_k: Sample from the k most probable tokens only.
        top_p: Sample from the fewest tokens with a total probability of at least p.
        seed: Random seed.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise UserError(f"the temperature must be at least 0 (greedy), got {self.temperature}")
        if self.top_k is not None and self.top_k < 1:
            raise UserError(f"top_k must be at least 1, got {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        if self.seed < 0:
            raise UserError(f"the seed must be at least 0, got {self.seed}")

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is always chosen."""
        return self.temperature == 0 or self.top_k == 1

    def draw_uniforms(self, prompt: Sequence[int], sample: int, count: int) -> np.ndarray:
        """The random numbers in [0, 1) for the tokens of one text."""
        return np.random.default_rng([self.seed, sample, *prompt]).random(count, np.float32)

    def choose(self, logits: Tensor, uniforms: np.ndarray | None) -> Tensor:
        """The next token of each row. Uses numpy for few tokens, which is much faster than torch for them.

        Args:
            logits: (b, vocab).
            uniforms: A number in [0, 1) for each row, (b,). None is greedy.

        Returns:
            Token ids, (b,).
        """
        array = logits.float().cpu().numpy()
        if self.greedy or uniforms is None:
            ids = array.argmax(-1)
        elif self.top_k is not None:
            ids = self._sample_from(array, _top_k_ids(array, min(self.top_k, array.shape[-1])), uniforms)
        elif self.top_p is None or self.top_p == 1.0:
            return _sample_all((logits / self.temperature).softmax(-1), torch.from_numpy(uniforms).to(logits))
        else:
            ids = self._top_p(array, uniforms)
        return torch.from_numpy(ids).to(logits.device)

    def _sample_from(self, logits: np.ndarray, ids: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Sample from these token ids (b, k), which are sorted by logit."""
        top_logits = np.take_along_axis(logits, ids, -1)
        weights = np.exp((top_logits - top_logits[:, :1]) / self.temperature)
        if self.top_p is not None:
            weights = _keep_top_p(weights, self.top_p * weights.sum(-1, keepdims=True))
        return np.take_along_axis(ids, _sample_indices(weights, uniforms)[:, None], -1)[:, 0]

    def _top_p(self, logits: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Top p without top k. A few tokens are usually enough; only if not, all are sorted, which is slow."""
        assert self.top_p is not None
        ids = _top_k_ids(logits, min(_TOP_P_CANDIDATES, logits.shape[-1]))
        top_logits = np.take_along_axis(logits, ids, -1)
        max_logits = top_logits[:, :1]
        threshold = self.top_p * np.exp((logits - max_logits) / self.temperature).sum(-1, keepdims=True)
        weights = np.exp((top_logits - max_logits) / self.temperature)
        if (weights.sum(-1, keepdims=True) < threshold).any():
            ids = np.argsort(-logits, -1)
            weights = np.exp((np.take_along_axis(logits, ids, -1) - max_logits) / self.temperature)
        return np.take_along_axis(ids, _sample_indices(_keep_top_p(weights, threshold), uniforms)[:, None], -1)[:, 0]


GREEDY = Sampling(temperature=0.0)


def _top_k_ids(logits: np.ndarray, k: int) -> np.ndarray:
    """The k most probable token ids of each row, the most probable first."""
    ids = np.argpartition(logits, logits.shape[-1] - k, -1)[:, -k:]
    order = np.argsort(-np.take_along_axis(logits, ids, -1), -1)
    return np.take_along_axis(ids, order, -1)


def _keep_top_p(weights: np.ndarray, threshold: np.ndarray) -> np.ndarray:
    """Set weights (b, k), the greatest first, to zero after the fewest that reach the threshold."""
    return np.where(weights.cumsum(-1) - weights < threshold, weights, 0.0)


def _sample_indices(weights: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Sample an index of each row from weights (b, k), which need not sum to one, with uniforms (b,).

    Sums are float64, so that a number below one never leads past the last token with a weight.
    """
    cumulative = weights.cumsum(-1, dtype=np.float64)
    return (cumulative <= uniforms[:, None] * cumulative[:, -1:]).sum(-1)


def _sample_all(weights: Tensor, uniforms: Tensor) -> Tensor:
    """The same over the whole vocabulary, which torch sums faster."""
    cumulative = weights.cumsum(-1)
    total = cumulative[:, -1:]
    # Below the total even after rounding, so that the token has a probability above 0.
    number = torch.minimum(uniforms[:, None] * total, total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(cumulative, number, right=True)[:, 0]
