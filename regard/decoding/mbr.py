"""Of many captions that a model draws, the one that most of the others would agree with.

A model that is not sure spreads its chance over many ways of saying the same; the likeliest single sentence can be one
that few would have said. What captions are measured by counts n-grams that one of R references has. If p(g) is the
share of drawn captions that hold the n-gram g, one of R references holds it with chance 1 - (1 - p(g))^R, so that

    score(y) = brevity(y) · exp(mean over n = 1..4 of log mean over n-grams g of y of 1 - (1 - p(g))^R)

is what BLEU can be expected to be (DeNero et al. 2009, Fast Consensus Decoding over Translation Forests; for captions
Devlin et al. 2015, Exploring Nearest Neighbor Approaches for Image Captioning). Linear in the number of captions drawn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.decoding.beam_search import Said
from regard.decoding.sampling import Sampling
from regard.decoding.seq2seq_decoders import Speaker
from regard.errors import UserError

Gram = tuple[tuple[int, ...], int]
ORDERS = 4
LEAST = 1e-3
"""What an n-gram that nobody else says is worth: a caption shorter than four words has none of four."""


@dataclass(frozen=True)
class Consensus:
    """How many captions are drawn, how boldly, and how many references a caption is thought to be measured against."""

    drawn: int = 40
    temperature: float = 0.7
    references: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.drawn < 2 or self.references < 1 or self.temperature <= 0:
            raise UserError(
                f"a consensus wants 2 captions or more, drawn at a temperature above 0, and 1 reference or more; "
                f"given {self.drawn}, {self.temperature}, {self.references}"
            )


def agreed(
    way: Speaker, pictures: Tensor, how: Consensus, *, begin: int, end: int, limit: int, first: int
) -> list[Said]:
    """One caption for each picture (b, ...), the first of which has this number: that says what is drawn for it."""
    b, w = len(pictures), how.drawn
    sampling = Sampling(how.temperature, seed=how.seed)
    numbers = np.stack([sampling.numbers([first + i], 0, w * (limit + 1)) for i in range(b)]).reshape(b, w, -1)
    logits = way.read(pictures, None, begin, limit, w).expand(-1, w, -1)
    words, logp = np.zeros((limit + 1, b, w), np.int64), np.zeros((b, w))
    alive, parents = np.ones((b, w), bool), torch.zeros(b, w, dtype=torch.long)
    for step in range(limit + 1):
        flat = logits.reshape(b * w, -1)
        chosen = sampling.choose(flat, numbers[:, :, step].reshape(-1))
        told = (flat.gather(1, chosen[:, None])[:, 0] - flat.logsumexp(-1)).view(b, w).numpy()
        words[step] = np.where(alive, chosen.view(b, w).numpy(), end)
        logp += np.where(alive, told, 0.0)
        alive &= words[step] != end
        if not alive.any() or step == limit:
            break
        logits = way.step(torch.from_numpy(words[step]), parents)
        parents = torch.arange(w).expand(b, w)
    found = []
    for i in range(b):
        drawn = [_until(words[:, i, j].tolist(), end)[:limit] for j in range(w)]
        best = choose(drawn, drawn, how.references)
        length = len(drawn[best]) + 1
        found.append(Said(drawn[best], logp[i, best] / length, float(logp[i, best]), not alive[i, best]))
    return found


def _until(words: list[int], end: int) -> list[int]:
    return words[: words.index(end)] if end in words else words


def choose(drawn: Sequence[Sequence[int]], candidates: Sequence[Sequence[int]], references: int = 5) -> int:
    """Which of the candidates agrees best with what was drawn; the first of equals."""
    held = Counter(gram for words in drawn for n in range(1, ORDERS + 1) for gram in _grams(words, n))
    usual = sorted(map(len, drawn))[len(drawn) // 3]  # the nearest of several references is rather a short one
    scores = [_score(words, held, len(drawn), usual, references) for words in candidates]
    return max(range(len(candidates)), key=scores.__getitem__)


def _score(words: Sequence[int], held: Mapping[Gram, int], count: int, usual: int, references: int) -> float:
    if not words:
        return -math.inf
    logs = 0.0
    for n in range(1, ORDERS + 1):
        chances = [1 - (1 - held[gram] / count) ** references for gram in _grams(words, n)]
        logs += math.log(max(LEAST, sum(chances) / len(chances) if chances else 0.0))
    return logs / ORDERS + min(0.0, 1 - usual / len(words))


def _grams(words: Sequence[int], n: int) -> list[Gram]:
    """The n-grams of a caption; one that comes again is another, which few captions hold twice."""
    seen: Counter[tuple[int, ...]] = Counter()
    found = []
    for i in range(len(words) - n + 1):
        gram = tuple(words[i : i + n])
        found.append((gram, seen[gram]))
        seen[gram] += 1
    return found
