"""Recall from the weights alone: items that say a fact in many ways (data/rewriting.py), each read causally, and the
share of the validation people whose answer is said exactly."""

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

Scored = Callable[[nn.Module], Mapping[str, float]]


@dataclass(frozen=True)
class ItemBatch:
    """ids (b, n), padded behind, where nothing that comes before looks; `wanted` (k,) what stands after `places`,
    which are counted through all rows."""

    ids: Tensor
    places: Tensor
    wanted: Tensor
    tokens: int

    @property
    def counts(self) -> dict[str, float]:
        return {"words": float(len(self.wanted))}


class Recall:
    """The task that the loop trains on. `scored` asks the validation people."""

    monitor = "exact"
    mode: Literal["max", "min"] = "max"

    def __init__(self, items: Paraphraser, scored: Scored, *, batch_tokens: int, seed: int):
        self.items, self.scored, self.batch_tokens, self.seed = items, scored, batch_tokens, seed
        self._kept: tuple[int, list[QAExample]] | None = None

    def plan(self, epoch: int) -> list[np.ndarray]:
        lengths = [len(item.ids) for item in self._epoch(epoch)]
        return plan_batches(lengths, self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, indices: np.ndarray, epoch: int) -> ItemBatch:
        items = self._epoch(epoch)
        return collate([items[i] for i in indices])

    def loss(self, model: nn.Module, batch: ItemBatch) -> Mapping[str, LossTerm]:
        logits = model(batch.ids, logits_at=batch.places)
        return {"words": LossTerm(F.cross_entropy(logits, batch.wanted, reduction="sum"))}

    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        return self.scored(model)

    def _epoch(self, epoch: int) -> list[QAExample]:
        if self._kept is None or self._kept[0] != epoch:
            self._kept = (epoch, self.items.generate_epoch(epoch))
        return self._kept[1]


def collate(items: list[QAExample]) -> ItemBatch:
    ids, mask = pad_rows([item.ids for item in items])
    first = np.array([item.first for item in items])[:, None]
    place = np.arange(1, ids.shape[1])
    places = np.flatnonzero(mask[:, 1:] & (place >= first))
    wanted = ids[:, 1:].reshape(-1)[places]
    return ItemBatch(
        torch.from_numpy(np.ascontiguousarray(ids[:, :-1])),
        torch.from_numpy(places),
        torch.from_numpy(wanted),
        int(mask.sum()),
    )
