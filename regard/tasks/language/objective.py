"""Model language: windows of one stream of tokens, in an order that hangs on (seed, epoch) alone; what is learnt from a
window is the objective's."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Literal

import numpy as np
from torch import nn

from regard.data.corpus import Corpus
from regard.errors import UserError
from regard.tasks.language.objectives import causal, cloze, masked, span
from regard.tasks.language.objectives.token_objective import Objective, WordBatch
from regard.training.objective import Term

MODELS = {
    "gpt": "regard.models.gpt",
    "ngram-gpt": "regard.models.ngram_gpt",
    "bert": "regard.models.bert",
    "preln-bert": "regard.models.preln_bert",
    "birnn": "regard.models.birnn",
    "cnn": "regard.models.causal_cnn",
}
OBJECTIVES: dict[str, ModuleType] = {"causal": causal, "masked": masked, "blank": cloze, "span": span}


class Language:
    """The task that the loop trains on."""

    monitor = "loss"
    mode: Literal["max", "min"] = "min"

    def __init__(self, train: Corpus, valid: Corpus, objective: Objective, *, block: int, batch_tokens: int, seed: int):
        self.train, self.valid, self.objective, self.seed = train, valid, objective, seed
        self.rows = max(1, batch_tokens // block)
        for part, corpus in (("training", train), ("validation", valid)):
            if corpus.tokens < objective.length:
                raise UserError(
                    f"the {part} part has {corpus.tokens:,} tokens, and a window of data.block={block} takes "
                    f"{objective.length:,}; give more text, or a smaller block (--block {max(corpus.tokens // 4, 1)})"
                )

    def offset(self, epoch: int) -> int:
        """Where the first window of an epoch starts: windows are cut anew each time."""
        free = self.train.tokens - self.objective.length
        return int(np.random.default_rng((self.seed, epoch)).integers(0, min(self.objective.step, free + 1)))

    def plan(self, epoch: int) -> list[np.ndarray]:
        length, step = self.objective.length, self.objective.step
        count = (self.train.tokens - self.offset(epoch) - length) // step + 1
        order = np.random.default_rng((self.seed, epoch, 1)).permutation(count)
        return [order[i : i + self.rows] for i in range(0, count, self.rows)]

    def batch(self, indices: np.ndarray, epoch: int) -> WordBatch:
        return self.objective.batch(self.train, self.offset(epoch) + indices * self.objective.step, indices, epoch)

    def loss(self, model: nn.Module, batch: Any) -> Mapping[str, Term]:
        return self.objective.loss(model, batch)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        return self.objective.evaluate(model, self.valid)
