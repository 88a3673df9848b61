"""Explain an encoder-decoder model: the source words that each word of the translation attends to, and whether removing
them changes its log-probability.

The translation is given to the decoder in one pass, so that all of its words are scored together; source words are
removed. Row t of the cross-attention is computed while the token after position t is predicted. A word of several
tokens has the mean of their rows and the sum of their log-probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.explain.explainer import Attribution, Explainer, TokenizedText, pad_ids, require_attention
from regard.inspect import AttentionMap, find_attention_layers


class Seq2SeqExplainer(Explainer):
    """Explains the words of a translation.

    Args:
        source, target: Both include their end-of-sequence token, if they have one.
        bos_id: Id of the token that starts a target.
        bos_token: Name of that token, for the page.
        empty_id: Source token to use if all are removed.
    """

    score_name = "log p"
    row_description = "the attention of each word of the translation"

    def __init__(
        self,
        model: nn.Module,
        source: TokenizedText,
        target: TokenizedText,
        *,
        bos_id: int,
        bos_token: str,
        empty_id: int,
        name: str,
        folder: str,
    ):
        require_attention(model, name)
        self.decoder_inputs = [bos_token, *(token["text"] for token in target.tokens[:-1])]
        self.model, self.source, self.target, self.bos_id, self.empty_id = model, source, target, bos_id, empty_id
        self.model_name, self.folder = name, folder
        shift, self.source_length = len(source.text) + 1, len(source.ids)
        next_word = 1 + max((t["word"] for t in source.tokens if t["word"] is not None), default=-1)
        target_tokens = [
            {
                **token,
                "start": token["start"] + shift,
                "end": token["end"] + shift,
                "word": None if token["word"] is None else token["word"] + next_word,
                "fixed": True,
            }
            for token in target.tokens
        ]
        self.text, self.tokens = f"{source.text}\n{target.text}", [*source.tokens, *target_tokens]
        words: dict[int, list[int]] = {}
        for position, token in enumerate(target.tokens):
            if not token["special"]:
                words.setdefault(int(token["word"] or 0), []).append(position)
        self.target_words = list(words.values())
        spans = [[target.tokens[i] for i in word] for word in self.target_words]
        self.targets = ["".join(target.text[t["start"] : t["end"]] for t in span).strip() or "␣" for span in spans]

    @property
    def title(self) -> str:
        return self.source.text

    @property
    def ids(self) -> Tensor:
        return torch.tensor([*self.source.ids, *self.target.ids])

    def scores(self, token_indices: Sequence[np.ndarray]) -> Tensor:
        """Scores with only these source tokens; the target is always complete."""
        kept = [torch.from_numpy(row[row < self.source_length]) for row in token_indices]
        source, mask = pad_ids([self.ids[row] for row in kept], self.empty_id)
        return self._score_batch(source, mask, self.ids[self.source_length :].expand(len(token_indices), -1))

    def scores_from_ids(self, ids: Tensor) -> Tensor:
        source, target = ids[:, : self.source_length], ids[:, self.source_length :]
        return self._score_batch(source, torch.ones(source.shape, dtype=torch.bool), target)

    def _score_batch(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        bos = torch.full((len(source), 1), self.bos_id)
        logits = self.model(source, torch.cat((bos, target[:, :-1]), 1), source_mask=mask).float()
        ids = torch.tensor(self.target.ids).expand(len(source), -1)
        log_p = logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        by_word = [log_p[:, word].sum(1) for word in self.target_words] or [log_p[:, 0]]
        return torch.stack(by_word, 1)[:, : len(self.target_words)]

    def probabilities(self) -> dict[str, float]:
        return {}

    def axis_sizes(self) -> dict[str, int]:
        return {}

    def page_fields(self) -> dict[str, Any]:
        m, total = self.source_length, len(self.tokens)
        targets = [
            {"tokens": [m + position for position in word], "log_p": float(p)}
            for word, p in zip(self.target_words, self.full_scores(), strict=True)
        ]
        axes = {"source": [0, m], "target": [m, total], "before": {"names": self.decoder_inputs}}
        fields = {"sentences": [[0, m], [m, total]], "axes": axes, "targets": targets}
        return {**fields, "translation": self.target.text}

    def target_rows(self, axis: str, count: int) -> list[list[int]]:
        return self.target_words if axis == "target" else super().target_rows(axis, count)

    def token_weights(self, axis: str, weights: np.ndarray) -> np.ndarray | None:
        if axis != "source":
            return None
        result = np.zeros((*weights.shape[:-1], len(self.tokens)))
        result[..., : self.source_length] = weights
        return result

    def label_axes(self, attention_map: AttentionMap) -> AttentionMap:
        """Axes by layer name. Row t of the decoder's self-attention predicts token t from the earlier ones."""
        if attention_map.layer in self.cross_attention_layers:
            rows, columns = "target", "source"
        elif attention_map.layer.startswith("decoder"):
            rows, columns = "target", "before"
        else:
            rows, columns = "source", "source"
        return replace(attention_map, rows=rows, columns=columns)

    @property
    def cross_attention_layers(self) -> list[str]:
        """Layers that attend to the source, first layer first."""
        names = list(find_attention_layers(self.model))
        cross = [name for name in names if name.endswith("cross_attention.attend")]
        return cross or [name for name in names if name.startswith("decoder.")]

    @property
    def default_layer(self) -> str:
        """The last but one cross-attention layer of a Transformer aligns best (Garg et al. 2019, section 3.2)."""
        return self.cross_attention_layers[max(0, len(self.cross_attention_layers) - 2)]

    def attribute(self, maps: list[AttentionMap]) -> Attribution | None:
        layer = next((m for m in maps if m.layer == self.default_layer), None)
        if layer is None or not self.target_words:
            return None
        rows = layer.weights.mean(0).double().numpy()  # (target, source)
        weights = np.zeros((len(self.target_words), len(self.tokens)))
        for j, word in enumerate(self.target_words):
            weights[j, : self.source_length] = rows[word].mean(0)
        return Attribution(weights, f"what the words of the translation attend to on average, at {self.default_layer}")
