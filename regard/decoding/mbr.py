"""Minimum Bayes risk: of many sampled captions, the one that agrees most with the others.

An uncertain model spreads its probability over many phrasings; the most probable single sentence can be unusual. The
metrics of captions count n-grams that occur in one of R references. If p(g) is the fraction of samples that contain the
n-gram g, one of R references contains it with probability 1 - (1 - p(g))^R, so that

    score(y) = brevity(y) · exp(mean over n = 1..4 of log mean over n-grams g of y of 1 - (1 - p(g))^R)

approximates the expected BLEU (DeNero et al. 2009, Fast Consensus Decoding over Translation Forests; for captions
Devlin et al. 2015, Exploring Nearest Neighbor Approaches for Image Captioning). Linear in the number of samples.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.decoding.beam_search import Hypothesis
from regard.decoding.sampling import Sampling
from regard.decoding.seq2seq_decoders import Seq2SeqDecoder
from regard.errors import UserError

NGram = tuple[tuple[int, ...], int]
MAX_ORDER = 4
MIN_PRECISION = 1e-3
"""Lower bound of a precision: a caption shorter than four words has no 4-grams."""


@dataclass(frozen=True)
class MinimumBayesRisk:
    """Options of minimum Bayes risk decoding.

    Args:
        num_samples: Captions to sample for each image.
        temperature: Temperature of the samples.
        references: Number of references that a caption is assumed to be measured against.
        seed: Random seed.
    """

    num_samples: int = 40
    temperature: float = 0.7
    references: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_samples < 2 or self.references < 1 or self.temperature <= 0:
            raise UserError(
                "minimum Bayes risk needs at least 2 samples, a temperature above 0 and at least 1 reference, got "
                f"{self.num_samples}, {self.temperature} and {self.references}"
            )


def decode_mbr(
    decoder: Seq2SeqDecoder,
    images: Tensor,
    options: MinimumBayesRisk,
    *,
    bos_id: int,
    eos_id: int,
    max_length: int,
    first: int,
) -> list[Hypothesis]:
    """One caption for each image (b, ...). `first` is the index of the first image, which seeds its samples."""
    b, w = len(images), options.num_samples
    sampling = Sampling(options.temperature, seed=options.seed)
    uniforms = np.stack([sampling.draw_uniforms([first + i], 0, w * (max_length + 1)) for i in range(b)]).reshape(
        b, w, -1
    )
    logits = decoder.start(images, None, bos_id, max_length, w).expand(-1, w, -1)
    ids, log_probs = np.zeros((max_length + 1, b, w), np.int64), np.zeros((b, w))
    active, parents = np.ones((b, w), bool), torch.zeros(b, w, dtype=torch.long)
    for step in range(max_length + 1):
        flat = logits.reshape(b * w, -1)
        chosen = sampling.choose(flat, uniforms[:, :, step].reshape(-1))
        step_log_probs = (flat.gather(1, chosen[:, None])[:, 0] - flat.logsumexp(-1)).view(b, w).numpy()
        ids[step] = np.where(active, chosen.view(b, w).numpy(), eos_id)
        log_probs += np.where(active, step_log_probs, 0.0)
        active &= ids[step] != eos_id
        if not active.any() or step == max_length:
            break
        logits = decoder.step(torch.from_numpy(ids[step]), parents)
        parents = torch.arange(w).expand(b, w)
    results = []
    for i in range(b):
        samples = [_cut_at(ids[:, i, j].tolist(), eos_id)[:max_length] for j in range(w)]
        best = choose_consensus(samples, samples, options.references)
        length = len(samples[best]) + 1
        results.append(
            Hypothesis(samples[best], log_probs[i, best] / length, float(log_probs[i, best]), not active[i, best])
        )
    return results


def _cut_at(ids: list[int], eos_id: int) -> list[int]:
    return ids[: ids.index(eos_id)] if eos_id in ids else ids


def choose_consensus(samples: Sequence[Sequence[int]], candidates: Sequence[Sequence[int]], references: int = 5) -> int:
    """The index of the candidate that agrees most with the samples; the first of equals."""
    counts = Counter(gram for ids in samples for n in range(1, MAX_ORDER + 1) for gram in _ngrams(ids, n))
    typical_length = sorted(map(len, samples))[len(samples) // 3]  # the closest of several references tends to be short
    scores = [_score(ids, counts, len(samples), typical_length, references) for ids in candidates]
    return max(range(len(candidates)), key=scores.__getitem__)


def _score(ids: Sequence[int], counts: Mapping[NGram, int], count: int, typical_length: int, references: int) -> float:
    if not ids:
        return -math.inf
    log_precision = 0.0
    for n in range(1, MAX_ORDER + 1):
        precisions = [1 - (1 - counts[gram] / count) ** references for gram in _ngrams(ids, n)]
        log_precision += math.log(max(MIN_PRECISION, sum(precisions) / len(precisions) if precisions else 0.0))
    return log_precision / MAX_ORDER + min(0.0, 1 - typical_length / len(ids))


def _ngrams(ids: Sequence[int], n: int) -> list[NGram]:
    """The n-grams of a caption, each with its occurrence number: few captions contain one twice."""
    seen: Counter[tuple[int, ...]] = Counter()
    ngrams = []
    for i in range(len(ids) - n + 1):
        ngram = tuple(ids[i : i + n])
        ngrams.append((ngram, seen[ngram]))
        seen[ngram] += 1
    return ngrams
