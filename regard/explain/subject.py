"""What can be looked at: a model with a text before it, and questions about what it says.

Each kind of model is a small class beside this one (look.py: classes of a text; look_words.py: a next or a missing
word, or the vector of a text; look_pair.py: the words of a translation). A subject answers its questions for the whole
text or without some of its tokens, as often as `regard.inspect` asks, and shows where attention went.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data import batches
from regard.errors import UserError
from regard.inspect import AttentionMap, Recording, find_attention_layers, attention_maps, integrated_gradients, record

BATCH_TOKENS = 16_384
MOST_CELLS = 512 * 512  # of a map that is shown; larger ones are never computed

progress: ContextVar[Callable[[int, int], Any] | None] = ContextVar("progress", default=None)
"""Is told how many of how many texts with words taken away are done: large models take minutes."""


@dataclass
class Picture:
    """Weights (questions, tokens) with how they came about; `more` are further parts of the page."""

    weights: np.ndarray
    how: str
    more: dict[str, Any] = field(default_factory=dict)


class Subject(ABC):
    """`tokens` are as the page has them; `labels` name the questions, each answered by one number, `said` of it;
    `speaks` tells which rows of a map answer them."""

    net: nn.Module
    text: str
    tokens: list[dict[str, Any]]
    labels: list[str]
    said: str = "p"
    unit: str = "word"
    """What is taken away to see what it did."""
    speaks: str = "what all rows regard in the mean"
    model_name: str = ""
    folder: str = ""
    batch_tokens: int = BATCH_TOKENS

    @property
    def words(self) -> list[int]:
        """The word of each token, -1 for tokens that cannot be taken away."""
        return [-1 if t["special"] or t.get("fixed") or t["word"] is None else int(t["word"]) for t in self.tokens]

    @property
    def first(self) -> str:
        """The site that the page opens with, if not the first one."""
        return ""

    @property
    def title(self) -> str:
        """What the page is called."""
        return self.text

    @abstractmethod
    def answers(self, rows: Sequence[np.ndarray]) -> Tensor:
        """The answers for some of the tokens, of each row those whose places are named: (rows, questions)."""

    def score(self, ids: Tensor) -> Tensor:
        """The answers for the whole text by token numbers (b, n): (b, questions), with gradients."""
        raise NotImplementedError("what is no text has a way to its gradients of its own")

    @property
    def ids(self) -> Tensor:
        """The ids of the tokens of a text, (n,)."""
        raise NotImplementedError("what is no text has no ids")

    def slopes(self, *, rows: int, steps: int) -> Tensor | None:
        """What each token adds to each answer by integrated gradients, (questions, tokens); None where the model cannot
        be asked for them."""
        return integrated_gradients(self.net, self.ids, self.score, rows=rows, steps=steps)

    @abstractmethod
    def chances(self) -> dict[str, float]:
        """What the model says, the likeliest first."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """How long the axes of its maps are."""

    @abstractmethod
    def picture(self, seen: list[AttentionMap]) -> Picture | None:
        """One weight for each token and question, out of the maps."""

    def parts(self) -> dict[str, Any]:
        """What the page is told besides: sentences, axes, questions."""
        return {}

    def asking(self, rows: str, count: int) -> list[list[int]]:
        """Which rows of a map speak for each question: all of them, where none does so more than others."""
        return [list(range(count))] * len(self.labels)

    def spread(self, columns: str, weights: np.ndarray) -> np.ndarray | None:
        """Weights (..., columns) as weights of the tokens; None where they are of something that cannot be taken
        away."""
        return weights if columns == "tokens" and weights.shape[-1] == len(self.tokens) else None

    def named(self, found: AttentionMap) -> AttentionMap:
        """A map with its axes named as the page knows them."""
        return found

    def predict(self, kept: Sequence[np.ndarray]) -> np.ndarray:
        """Which tokens are kept, a bool array each, to (rows, questions); a long text many times over would not fit
        into memory at once."""
        rows = [np.flatnonzero(k) for k in kept]
        found = np.empty((len(rows), len(self.labels)))
        told, done = progress.get(), 0
        with torch.no_grad():
            for part in batches.plan_batches([len(r) for r in rows], self.batch_tokens, seed=0, epoch=0, shuffle=False):
                found[part] = self.answers([rows[i] for i in part]).double().numpy()
                done += len(part)
                if told is not None and len(rows) > 1:
                    told(done, len(rows))
        return found

    def whole(self) -> np.ndarray:
        """The answers as things are, (questions,)."""
        return self.predict([np.ones(len(self.tokens), bool)])[0]

    def seen(self, most: int = MOST_CELLS) -> tuple[list[AttentionMap], Recording]:
        """The maps of the whole text."""
        with torch.no_grad(), record(self.net, most=most) as recording:
            self.answers([np.arange(len(self.tokens))])
        return [self.named(m) for m in attention_maps(recording, 0, self.sizes())], recording


def must_attend(net: Any, name: str) -> None:
    """Raise where there is nothing to look at."""
    if not isinstance(net, nn.Module) or not find_attention_layers(net):
        raise UserError(
            f"model {name!r} has no attention to look at; han, self-attentive, transformer or bilstm with "
            "pool=attention have some, and of language models gpt and bert"
        )


def padded(rows: Sequence[Tensor], empty: int) -> tuple[Tensor, Tensor]:
    """Rows of ids as a block (b, longest) and which are real; a row of nothing holds one `empty`."""
    longest = max(1, max(len(row) for row in rows))
    block = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest, dtype=torch.bool)
    for i, row in enumerate(rows):
        block[i, : len(row)], mask[i, : len(row)] = row, True
        if not len(row):
            block[i, 0], mask[i, 0] = empty, True
    return block, mask
