"""A trained language model in Python: evaluate, and what its objective lets it do besides."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from regard.data import corpus
from regard.data.vocabulary import Vocabulary
from regard.errors import UserError
from regard.runs.run import Run
from regard.tasks.language import OBJECTIVES
from regard.tasks.objectives.base import Objective

VERBS = {
    "causal": ("evaluate", "generate"),
    "masked": ("evaluate", "fill"),
    "blank": ("evaluate", "fill"),
    "span": ("evaluate", "generate", "fill"),
}


class LanguageModel(Run):
    """A run of `language`. `objective` says what it was taught: causal, masked, blank or span."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return VERBS[self.objective]

    @property
    def objective(self) -> str:
        return self.config["settings"]["objective"]

    def evaluate(
        self, data: str | Path | list[str | Path], *, stride: int | None = None, say: Callable[[str], Any] = print
    ) -> dict[str, Any]:
        """Nats a token, perplexity and bits on files or folders of text, as on the validation part: by a window that
        moves `stride` tokens at a time. A smaller stride gives each token more to look at, and takes longer."""
        assert isinstance(self.model, nn.Module)
        assert self.tokenizer is not None
        block = self.settings.data.block
        if stride is not None and not 1 <= stride <= block:
            raise UserError(f"the stride lies between 1 and the block of training, {block}, and was given {stride}")
        with tempfile.TemporaryDirectory() as place:
            text = corpus.build(
                data, self.tokenizer, place, documents=self.settings.data.documents, say=say, progress=False
            )
            made = objective(self.settings, Vocabulary(self.tokenizer), stride)
            if text.tokens < made.length and self.objective in ("masked", "span"):
                raise UserError(f"the text has {text.tokens:,} tokens, and a window takes {made.length:,}")
            stated = stride or self.settings.data.stride or block
            shape = {"tokens": text.tokens, "block": block, "stride": stated}
            return {**shape, **made.evaluate(self.model, text)}


def objective(settings: Any, vocabulary: Vocabulary, stride: int | None = None) -> Objective:
    """What is learnt, as the settings say."""
    data = settings.data
    return OBJECTIVES[settings.objective].OBJECTIVE(
        settings.corruption,
        vocabulary,
        block=data.block,
        stride=stride or data.stride or data.block,
        rows=max(1, 2 * data.batch_tokens // data.block),
        seed=settings.seed,
    )
