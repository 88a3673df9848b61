"""Base class of explainers: a model with one input, and the targets whose scores attention should explain.

Each kind of model has its own explainer: token_explainers.py (next token, masked token, embedding of a text),
seq2seq_explainer.py (words of a translation), and the `look.py` of the classification and image tasks. An explainer
scores its targets with all tokens or with some of them removed, and records the attention maps.
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

from regard.data.batches import plan_batches
from regard.errors import UserError
from regard.inspect import (
    AttentionMap,
    Recording,
    attention_maps,
    find_attention_layers,
    integrated_gradients,
    record,
)

BATCH_TOKENS = 16_384
MAX_CELLS = 512 * 512  # of a map on the page; larger maps are never computed

progress: ContextVar[Callable[[int, int], Any] | None] = ContextVar("progress", default=None)
"""Called with the number of inputs scored and their total: large models take minutes."""


@dataclass(frozen=True)
class TokenizedText:
    """A text with its token ids, and its tokens as the page expects them (text, start, end, word, special)."""

    text: str
    ids: list[int]
    tokens: list[dict[str, Any]]


@dataclass
class Attribution:
    """One weight per target and token, (targets, tokens).

    Attributes:
        weights: Weights of the tokens.
        description: How the weights were computed, for the reader.
        page_fields: Further fields of the page's data.
    """

    weights: np.ndarray
    description: str
    page_fields: dict[str, Any] = field(default_factory=dict)


class Explainer(ABC):
    """A model with one input, and the targets to explain.

    Attributes:
        model: The model.
        text: The input as text.
        tokens: Tokens as the page expects them: {"text", "start", "end", "word", "special"}.
        targets: Names of the targets, such as the predicted class; each has one score.
        score_name: Name of the score, such as "p" or "log p".
        unit: What is removed to measure its effect, for the reader.
        row_description: Which rows of a map are compared with the targets, for the reader.
    """

    model: nn.Module
    text: str
    tokens: list[dict[str, Any]]
    targets: list[str]
    score_name: str = "p"
    unit: str = "word"
    row_description: str = "the mean of all rows"
    model_name: str = ""
    folder: str = ""
    batch_tokens: int = BATCH_TOKENS

    @property
    def word_ids(self) -> list[int]:
        """Word of each token; -1 for tokens that are never removed."""
        return [-1 if t["special"] or t.get("fixed") or t["word"] is None else int(t["word"]) for t in self.tokens]

    @property
    def default_layer(self) -> str:
        """Attention layer that the page opens with; the first one if empty."""
        return ""

    @property
    def title(self) -> str:
        """Title of the page."""
        return self.text

    @property
    def ids(self) -> Tensor:
        """Token ids of a text, (n,)."""
        raise NotImplementedError(f"{type(self).__name__} has no token ids: its input is not a text")

    @abstractmethod
    def scores(self, token_indices: Sequence[np.ndarray]) -> Tensor:
        """Scores with only these tokens of the input, (rows, targets)."""

    def scores_from_ids(self, ids: Tensor) -> Tensor:
        """Scores of the full text from token ids (b, n), with gradients: (b, targets)."""
        raise NotImplementedError(f"{type(self).__name__} has no token ids: its input is not a text")

    def gradients(self, *, batch_size: int, steps: int) -> Tensor | None:
        """Integrated gradients, (targets, tokens); None if the model does not support them."""
        return integrated_gradients(self.model, self.ids, self.scores_from_ids, batch_size=batch_size, steps=steps)

    @abstractmethod
    def probabilities(self) -> dict[str, float]:
        """The model's prediction, most probable label first; empty if there is none."""

    @abstractmethod
    def axis_sizes(self) -> dict[str, int]:
        """Length of each axis of the maps, without padding."""

    @abstractmethod
    def attribute(self, maps: list[AttentionMap]) -> Attribution | None:
        """One weight per target and token from the attention maps."""

    def page_fields(self) -> dict[str, Any]:
        """Further fields of the page's data: sentences, axes, targets."""
        return {}

    def target_rows(self, axis: str, count: int) -> list[list[int]]:
        """Rows of a map that belong to each target; all of them by default."""
        return [list(range(count))] * len(self.targets)

    def token_weights(self, axis: str, weights: np.ndarray) -> np.ndarray | None:
        """Weights (..., columns) of an axis as weights of the tokens; None if the axis cannot be removed."""
        return weights if axis == "tokens" and weights.shape[-1] == len(self.tokens) else None

    def label_axes(self, attention_map: AttentionMap) -> AttentionMap:
        """The map with the axis names that the page knows."""
        return attention_map

    def score_masks(self, masks: Sequence[np.ndarray]) -> np.ndarray:
        """Scores for keep-masks, each (tokens,) bool: (masks, targets). Runs in batches of `batch_tokens`."""
        rows = [np.flatnonzero(mask) for mask in masks]
        scores = np.empty((len(rows), len(self.targets)))
        on_progress, done = progress.get(), 0
        with torch.no_grad():
            for batch in plan_batches([len(row) for row in rows], self.batch_tokens, seed=0, epoch=0, shuffle=False):
                scores[batch] = self.scores([rows[i] for i in batch]).double().numpy()
                done += len(batch)
                if on_progress is not None and len(rows) > 1:
                    on_progress(done, len(rows))
        return scores

    def full_scores(self) -> np.ndarray:
        """Scores with all tokens, (targets,)."""
        return self.score_masks([np.ones(len(self.tokens), bool)])[0]

    def record_maps(self, max_cells: int = MAX_CELLS) -> tuple[list[AttentionMap], Recording]:
        """Attention maps of the full input, and the recording they come from."""
        with torch.no_grad(), record(self.model, max_cells=max_cells) as recording:
            self.scores([np.arange(len(self.tokens))])
        return [self.label_axes(m) for m in attention_maps(recording, 0, self.axis_sizes())], recording


def require_attention(model: Any, name: str) -> None:
    """Raise if the model has no attention."""
    if not isinstance(model, nn.Module) or not find_attention_layers(model):
        raise UserError(
            f"model {name!r} has no attention to look at; han, self-attentive, transformer or bilstm with "
            "pool=attention have some, and of language models gpt and bert"
        )


def pad_ids(rows: Sequence[Tensor], empty_id: int) -> tuple[Tensor, Tensor]:
    """Pad rows of ids to (b, longest), with a mask of the real ones; an empty row becomes one `empty_id`."""
    longest = max(1, max(len(row) for row in rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest, dtype=torch.bool)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, True
        if not len(row):
            ids[i, 0], mask[i, 0] = empty_id, True
    return ids, mask
