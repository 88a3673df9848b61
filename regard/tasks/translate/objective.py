"""Batches, loss and evaluation of translators: the next target token from the source and the target tokens before it.

    loss = Σ_t (1 - ε) · -log P(w_t | w_<t, x) + ε · mean over w of -log P(w | w_<t, x)          ε: label smoothing

(Szegedy et al. 2016, section 7; Vaswani et al. 2017, 5.4), summed over target tokens and divided by their number. The
validation loss has no label smoothing. A batch has pairs of similar length.
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
    """A batch of sentence pairs.

    Attributes:
        source: Token ids of the sources, (b, m).
        source_mask: True for real tokens, (b, m).
        target: Token ids that the decoder reads, from [BOS] on, (b, n).
        target_mask: True for real tokens, (b, n).
        logits_at: Flat indices of the real target positions, (k,).
        next_ids: The token after each of them, (k,).
        tokens: Number of real tokens on both sides.
    """

    source: Tensor
    source_mask: Tensor
    target: Tensor
    target_mask: Tensor
    logits_at: Tensor
    next_ids: Tensor
    tokens: int

    @property
    def counts(self) -> dict[str, float]:
        return {"words": float(len(self.next_ids))}


class TranslateObjective:
    """The objective of the training loop.

    Args:
        train: Training pairs.
        valid: Validation pairs.
        batch_tokens: Tokens of a batch.
        seed: Seed of the order of the batches.
        label_smoothing: ε.
        compute_bleu: Computes BLEU of a model on the validation part; it then selects the best checkpoint.
        encode_epoch: Encodes the training pairs anew for an epoch (BPE-dropout).
    """

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
        self.encode_epoch, self._encoded_epoch = encode_epoch, -1
        self.label_smoothing, self.compute_bleu = label_smoothing, compute_bleu
        self.monitor = "loss" if compute_bleu is None else "bleu_lc"
        self.mode: Literal["max", "min"] = "min" if compute_bleu is None else "max"

    def plan(self, epoch: int) -> list[np.ndarray]:
        train = self._training_pairs(epoch)
        lengths = train.source_lengths, train.target_lengths
        return plan_pair_batches(*lengths, self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, indices: np.ndarray, epoch: int) -> PairBatch:
        return collate(self._training_pairs(epoch), indices)

    def loss(self, model: nn.Module, batch: PairBatch) -> Mapping[str, LossTerm]:
        logits = next_token_logits(model, batch)
        loss = F.cross_entropy(logits, batch.next_ids, reduction="sum", label_smoothing=self.label_smoothing)
        return {"words": LossTerm(loss)}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        metrics = evaluate_pairs(model, self.valid, batch_tokens=2 * self.batch_tokens)
        return {**(self.compute_bleu(model) if self.compute_bleu else {}), **metrics}

    def _training_pairs(self, epoch: int) -> EncodedPairs:
        if self.encode_epoch is not None and epoch != self._encoded_epoch:
            self.train, self._encoded_epoch = self.encode_epoch(epoch), epoch
        return self.train


def next_token_logits(model: nn.Module, batch: PairBatch) -> Tensor:
    """Logits of the token after each real target position, (k, vocab)."""
    masks = {"source_mask": batch.source_mask, "target_mask": batch.target_mask}
    return model(batch.source, batch.target, logits_at=batch.logits_at, **masks)


@torch.no_grad()
def evaluate_pairs(model: nn.Module, pairs: EncodedPairs, *, batch_tokens: int) -> dict[str, float]:
    """The loss per target token, the perplexity, and the accuracy of the next token."""
    device, loss, correct, count = next(model.parameters()).device, 0.0, 0, 0
    lengths = pairs.source_lengths, pairs.target_lengths
    for indices in plan_pair_batches(*lengths, batch_tokens, seed=0, epoch=0, shuffle=False):
        batch = move_batch(collate(pairs, indices), device)
        logits = next_token_logits(model, batch)
        loss += float(F.cross_entropy(logits.float(), batch.next_ids, reduction="sum"))
        correct += int((logits.argmax(-1) == batch.next_ids).sum())
        count += len(batch.next_ids)
    return {"loss": loss / count, "perplexity": math.exp(min(loss / count, 700.0)), "accuracy": correct / count}


def move_batch(batch: PairBatch, device: torch.device) -> PairBatch:
    """The batch on a device."""
    if device.type == "cpu":
        return batch
    tensors = {name: value.to(device) for name, value in vars(batch).items() if isinstance(value, Tensor)}
    return PairBatch(**tensors, tokens=batch.tokens)


def collate(pairs: EncodedPairs, indices: np.ndarray) -> PairBatch:
    """Build a padded batch of the pairs with these indices."""
    source, source_mask = _pad(pairs.source, pairs.source_starts, indices)
    next_ids, mask = _pad(pairs.target, pairs.target_starts, indices)
    target = np.concatenate((np.full((len(indices), 1), BOS), next_ids[:, :-1]), 1)
    logits_at = np.flatnonzero(mask)
    return PairBatch(
        torch.from_numpy(source),
        torch.from_numpy(source_mask),
        torch.from_numpy(np.where(mask, target, 0)),
        torch.from_numpy(mask),
        torch.from_numpy(logits_at),
        torch.from_numpy(next_ids.reshape(-1)[logits_at]),
        int(source_mask.sum() + mask.sum()),
    )


def _pad(ids: np.ndarray, starts: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a flat array of ids as a padded array (b, n) and its mask."""
    lengths = starts[indices + 1] - starts[indices]
    positions = np.arange(lengths.max())
    mask = positions < lengths[:, None]
    rows = ids[np.where(mask, starts[indices, None] + positions, 0)]
    return np.where(mask, rows, 0).astype(np.int64), mask
