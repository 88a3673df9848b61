"""Training objective of a closed book: next-token prediction on paraphrases of facts (regard.data.paraphrase)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches import pad_rows, plan_batches
from regard.data.paraphrase import Paraphraser, QAExample
from regard.training.objective import LossTerm


@dataclass(frozen=True)
class QABatch:
    """A padded batch of examples.

    Attributes:
        ids: (b, n), padded at the end, where causal attention does not see it.
        positions: (k,), positions in the flattened batch whose next token is predicted.
        targets: (k,), these next tokens.
        tokens: Number of real tokens.
    """

    ids: Tensor
    positions: Tensor
    targets: Tensor
    tokens: int

    @property
    def counts(self) -> dict[str, float]:
        return {"words": float(len(self.targets))}


class RecallObjective:
    """Training objective. `evaluate_fn` answers the validation questions and returns metrics."""

    monitor = "exact"
    mode: Literal["max", "min"] = "max"

    def __init__(
        self,
        paraphraser: Paraphraser,
        evaluate_fn: Callable[[nn.Module], Mapping[str, float]],
        *,
        batch_tokens: int,
        seed: int,
    ):
        self.paraphraser, self.evaluate_fn, self.batch_tokens, self.seed = paraphraser, evaluate_fn, batch_tokens, seed
        self._cache: tuple[int, list[QAExample]] | None = None

    def plan(self, epoch: int) -> list[np.ndarray]:
        lengths = [len(example.ids) for example in self._examples(epoch)]
        return plan_batches(lengths, self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, indices: np.ndarray, epoch: int) -> QABatch:
        examples = self._examples(epoch)
        return collate([examples[i] for i in indices])

    def loss(self, model: nn.Module, batch: QABatch) -> Mapping[str, LossTerm]:
        logits = model(batch.ids, logits_at=batch.positions)
        return {"words": LossTerm(F.cross_entropy(logits, batch.targets, reduction="sum"))}

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        return self.evaluate_fn(model)

    def _examples(self, epoch: int) -> list[QAExample]:
        if self._cache is None or self._cache[0] != epoch:
            self._cache = (epoch, self.paraphraser.generate_epoch(epoch))
        return self._cache[1]


def collate(examples: list[QAExample]) -> QABatch:
    """Pad examples to a batch."""
    ids, mask = pad_rows([example.ids for example in examples])
    first = np.array([example.first for example in examples])[:, None]
    positions = np.flatnonzero(mask[:, 1:] & (np.arange(1, ids.shape[1]) >= first))
    return QABatch(
        torch.from_numpy(np.ascontiguousarray(ids[:, :-1])),
        torch.from_numpy(positions),
        torch.from_numpy(ids[:, 1:].reshape(-1)[positions]),
        int(mask.sum()),
    )
