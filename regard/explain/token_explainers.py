"""Explain a language model: its next token, a masked token, or the embedding of a text.

    next token     log p(token | text); attention from the last token
    masked token   log p(token | text with [MASK]); attention from the [MASK]
    embedding      cosine similarity of the mean state of part of a text to that of the full text; mean of all rows

In a model of several layers, attention is rolled out through all of them. Words are removed from the text, and the
words after them move up.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UserError, did_you_mean
from regard.explain.explainer import Attribution, Explainer, TokenizedText, pad_ids, require_attention
from regard.inspect import AttentionMap, rollout, self_attention_maps

NUM_PREDICTIONS = 30  # tokens listed with their probabilities


@dataclass(frozen=True)
class PromptText(TokenizedText):
    """A text as a language model reads it.

    Attributes:
        decode: Text of a token id.
        find_id: Id of a word given by the user; None if it is not a single token.
        empty_id: Token to use if all tokens are removed.
        banned_ids: Tokens that are never predicted.
    """

    decode: Callable[[int], str]
    find_id: Callable[[str], int | None]
    empty_id: int = 1
    banned_ids: tuple[int, ...] = ()


class LanguageModelExplainer(Explainer):
    """Base class of the explainers of one text."""

    description = "attention"

    def __init__(self, model: nn.Module, prompt: PromptText, *, name: str, folder: str = ""):
        require_attention(model, name)
        if not prompt.ids:
            raise UserError("there is nothing to look at: the text is empty")
        self.model, self.prompt, self.text, self.tokens = model, prompt, prompt.text, prompt.tokens
        self.model_name, self.folder = name, folder

    @property
    def ids(self) -> Tensor:
        return torch.tensor(self.prompt.ids)

    def scores(self, token_indices: Sequence[np.ndarray]) -> Tensor:
        rows = [self.ids[torch.from_numpy(row)] for row in token_indices]
        return self._score_batch(*pad_ids(rows, self.prompt.empty_id), token_indices)

    def scores_from_ids(self, ids: Tensor) -> Tensor:
        rows = [np.arange(len(self.tokens))] * len(ids)
        return self._score_batch(ids, torch.ones(ids.shape, dtype=torch.bool), rows)

    @abstractmethod
    def _score_batch(self, ids: Tensor, mask: Tensor, token_indices: Sequence[np.ndarray]) -> Tensor:
        """Scores (b, targets) of padded ids; `token_indices` says which tokens of the text each row has."""

    def probabilities(self) -> dict[str, float]:
        return {}

    def axis_sizes(self) -> dict[str, int]:
        return {"tokens": len(self.tokens)}

    def attribute(self, maps: list[AttentionMap]) -> Attribution | None:
        layers = self_attention_maps(maps)
        if not layers:
            return None
        weights = rollout([m.weights.float() for m in layers])[-1]
        method = "attention through all layers (rollout)" if len(layers) > 1 else "attention and residual"
        return Attribution(self._target_row(weights).double().numpy()[None], f"{self.description}: {method}")

    @abstractmethod
    def _target_row(self, weights: Tensor) -> Tensor:
        """The row (n,) of a map (n, n) that belongs to the target."""


class TokenExplainer(LanguageModelExplainer):
    """Explains the log-probability of one token."""

    score_name = "log p"

    def __init__(self, model: nn.Module, prompt: PromptText, *, name: str, folder: str = "", label: str | None = None):
        super().__init__(model, prompt, name=name, folder=folder)
        logits = self._full_logits()
        allowed = _ban(logits, prompt.banned_ids)
        self.target = int(allowed.argmax())
        if label is not None:
            token_id = prompt.find_id(label)
            if token_id is None:
                likely = allowed.topk(min(200, len(logits))).indices.tolist()
                hint = did_you_mean(label, [prompt.decode(i).strip() for i in likely][:30])
                raise UserError(f"{label!r} is not a single token of this model, so it cannot be explained; {hint}")
            self.target = token_id
        self.targets = [_display(prompt.decode(self.target))]

    def _target_positions(self, token_indices: Sequence[np.ndarray]) -> list[int]:
        """Position in each row at which the target is predicted: the last one."""
        return [max(1, len(row)) - 1 for row in token_indices]

    def _logits(self, ids: Tensor, mask: Tensor, positions: list[int]) -> Tensor:
        """Logits at one position of each row, (b, vocab)."""
        flat = torch.tensor([i * ids.shape[1] + position for i, position in enumerate(positions)])
        output = self.model(ids, mask=mask, logits_at=flat)
        return (output[0] if isinstance(output, tuple) else output).float()

    @torch.no_grad()
    def _full_logits(self) -> Tensor:
        n = len(self.tokens)
        return self._logits(self.ids[None], torch.ones(1, n, dtype=torch.bool), self._target_positions([np.arange(n)]))[
            0
        ]

    def _score_batch(self, ids: Tensor, mask: Tensor, token_indices: Sequence[np.ndarray]) -> Tensor:
        logits = self._logits(ids, mask, self._target_positions(token_indices))
        return logits.log_softmax(-1)[:, self.target, None]

    def probabilities(self) -> dict[str, float]:
        logits = self._full_logits()
        p = logits.log_softmax(-1).exp()
        by_name: dict[str, float] = {}
        for i in _ban(logits, self.prompt.banned_ids).topk(min(NUM_PREDICTIONS, len(logits))).indices.tolist():
            name = _display(self.prompt.decode(i))
            by_name[name + "′" * sum(known.rstrip("′") == name for known in by_name)] = float(p[i])
        if self.targets and self.targets[0] not in by_name:
            by_name[self.targets[0]] = float(p[self.target])
        return by_name


class NextTokenExplainer(TokenExplainer):
    """Explains the token that a causal model predicts after a text."""

    description = row_description = "what the last token attends to"

    def _target_row(self, weights: Tensor) -> Tensor:
        return weights[-1]

    def target_rows(self, axis: str, count: int) -> list[list[int]]:
        return [[count - 1]]


class MaskedTokenExplainer(TokenExplainer):
    """Explains the token that a bidirectional model predicts at a [MASK]."""

    description = row_description = "what the [MASK] attends to"

    def __init__(self, model: nn.Module, prompt: PromptText, position: int, **options: Any):
        self.position = position
        super().__init__(model, prompt, **options)
        self.tokens[position]["fixed"] = True

    def _target_positions(self, token_indices: Sequence[np.ndarray]) -> list[int]:
        return [int(np.flatnonzero(row == self.position)[0]) for row in token_indices]

    def _target_row(self, weights: Tensor) -> Tensor:
        return weights[self.position]

    def target_rows(self, axis: str, count: int) -> list[list[int]]:
        return [[self.position]] if axis == "tokens" else super().target_rows(axis, count)


class EmbeddingExplainer(LanguageModelExplainer):
    """Explains the embedding of a text, the mean of the states of its tokens, by its similarity to the full text's."""

    score_name, description = "similarity", "what all positions attend to on average"

    def __init__(self, model: nn.Module, prompt: PromptText, *, name: str, folder: str = ""):
        super().__init__(model, prompt, name=name, folder=folder)
        self.targets = ["to the full text"]

    def _score_batch(self, ids: Tensor, mask: Tensor, token_indices: Sequence[np.ndarray]) -> Tensor:
        with torch.no_grad():
            full = self._embed(self.ids[None], torch.ones(1, len(self.tokens), dtype=torch.bool))
        return F.cosine_similarity(self._embed(ids, mask), full)[:, None]

    def _embed(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = self.model.hidden_states(ids, mask=mask)  # type: ignore[operator]
        return states.masked_fill(~mask[..., None], 0.0).sum(1) / mask.sum(1, keepdim=True)

    def _target_row(self, weights: Tensor) -> Tensor:
        return weights.mean(0)


def _ban(logits: Tensor, banned_ids: Sequence[int]) -> Tensor:
    logits = logits.clone()
    logits[list(banned_ids)] = -torch.inf
    return logits


def _display(text: str) -> str:
    """A token without its space; only white space becomes visible characters."""
    return text.strip() or text.replace("\n", "⏎").replace(" ", "␣") or "␣"
