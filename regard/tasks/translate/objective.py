"""Translate: pairs of like length, and the next word of the target from the source and the words before it.

    loss = Σ_t (1 - ε) · -log P(w_t | w_<t, x) + ε · mean over w of -log P(w | w_<t, x)          ε: label smoothing

(Szegedy et al. 2016, section 7; Vaswani et al. 2017, 5.4), summed over words and divided by their number. On the
validation part nothing is smoothed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.parallel_text import EncodedPairs, plan_pair_batches
from regard.data.tokenizer import BOS
from regard.training.objective import LossTerm


@dataclass(frozen=True)
class PairBatch:
    """source (b, m) and target (b, n), the latter from [BOS] on, with masks; `places` are the real places of the
    target, counted through all rows, and `words` (k,) what stands after each."""

    source: Tensor
    source_mask: Tensor
    target: Tensor
    target_mask: Tensor
    places: Tensor
    words: Tensor
    tokens: int

    @property
    def counts(self) -> dict[str, float]:
        return {"words": float(len(self.words))}


class TranslateObjective:
    """The task that the loop trains on. `scored` gives further numbers of the validation part, such as BLEU, which is
    then what decides about the best model; `recut` gives the training part as it is cut into tokens in an epoch."""

    def __init__(
        self,
        train: EncodedPairs,
        valid: EncodedPairs,
        *,
        batch_tokens: int,
        seed: int,
        label_smoothing: float = 0.1,
        compute_bleu: Callable[[nn.Module], Mapping[str, float]] | None = None,
        encode_epoch: Callable[[int], EncodedPairs] | None = None,
    ):
        self.train, self.valid, self.batch_tokens, self.seed = train, valid, batch_tokens, seed
        self.encode_epoch, self._epoch = encode_epoch, -1
        self.label_smoothing, self.compute_bleu = label_smoothing, compute_bleu
        self.monitor = "loss" if compute_bleu is None else "bleu_lc"
        self.mode: Literal["max", "min"] = "min" if compute_bleu is None else "max"

    def plan(self, epoch: int) -> list[np.ndarray]:
        train = self._pairs(epoch)
        return plan_pair_batches(
            train.source_lengths, train.target_lengths, self.batch_tokens, seed=self.seed, epoch=epoch
        )

    def batch(self, indices: np.ndarray, epoch: int) -> PairBatch:
        return collate(self._pairs(epoch), indices)

    def loss(self, model: nn.Module, batch: PairBatch) -> Mapping[str, LossTerm]:
        words = F.cross_entropy(said(model, batch), batch.words, reduction="sum", label_smoothing=self.label_smoothing)
        return {"words": LossTerm(words)}

    def _pairs(self, epoch: int) -> EncodedPairs:
        if self.encode_epoch is not None and epoch != self._epoch:
            self.train, self._epoch = self.encode_epoch(epoch), epoch
        return self.train

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        found = measure(model, self.valid, batch_tokens=2 * self.batch_tokens)
        return {**(self.compute_bleu(model) if self.compute_bleu else {}), **found}


def said(model: nn.Module, batch: PairBatch) -> Tensor:
    """Logits of the word after each real place of the target, (k, vocab)."""
    masks = {"source_mask": batch.source_mask, "target_mask": batch.target_mask}
    return model(batch.source, batch.target, logits_at=batch.places, **masks)


@torch.no_grad()
def measure(model: nn.Module, pairs: EncodedPairs, *, batch_tokens: int) -> dict[str, float]:
    """Nats a target word, perplexity, and the share of words that are the likeliest."""
    device, nats, right, count = next(model.parameters()).device, 0.0, 0, 0
    for indices in plan_pair_batches(
        pairs.source_lengths, pairs.target_lengths, batch_tokens, seed=0, epoch=0, shuffle=False
    ):
        batch = moved(collate(pairs, indices), device)
        logits = said(model, batch)
        nats += float(F.cross_entropy(logits.float(), batch.words, reduction="sum"))
        right += int((logits.argmax(-1) == batch.words).sum())
        count += len(batch.words)
    return {"loss": nats / count, "perplexity": math.exp(min(nats / count, 700.0)), "accuracy": right / count}


def moved(batch: PairBatch, device: torch.device) -> PairBatch:
    if device.type == "cpu":
        return batch
    tensors = {k: v.to(device) for k, v in vars(batch).items() if isinstance(v, Tensor)}
    return PairBatch(**tensors, tokens=batch.tokens)


def collate(pairs: EncodedPairs, indices: np.ndarray) -> PairBatch:
    """The named pairs as padded tensors."""
    source, source_mask = _padded(pairs.source, pairs.source_starts, indices)
    words, mask = _padded(pairs.target, pairs.target_starts, indices)
    target = np.concatenate((np.full((len(indices), 1), BOS), words[:, :-1]), 1)
    places = np.flatnonzero(mask)
    return PairBatch(
        torch.from_numpy(source),
        torch.from_numpy(source_mask),
        torch.from_numpy(np.where(mask, target, 0)),
        torch.from_numpy(mask),
        torch.from_numpy(places),
        torch.from_numpy(words.reshape(-1)[places]),
        int(source_mask.sum() + mask.sum()),
    )


def _padded(flat: np.ndarray, starts: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    lengths = starts[indices + 1] - starts[indices]
    place = np.arange(lengths.max())
    mask = place < lengths[:, None]
    ids = flat[np.where(mask, starts[indices, None] + place, 0)]
    return np.where(mask, ids, 0).astype(np.int64), mask
