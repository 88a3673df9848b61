"""Show the attention of a classifier on one text, and measure how faithful it is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.tokenizer import UNK
from regard.errors import UserError, did_you_mean
from regard.explain.build import build_look
from regard.explain.explainer import Attribution, Explainer, pad_ids, require_attention
from regard.explain.interventions import Intervention
from regard.explain.look_result import Look
from regard.explain.rationales import add_evidence
from regard.inspect import AttentionMap, TokenAttribution, hop_overlap, token_attribution
from regard.tasks.classify.dataset import encode_texts
from regard.tasks.classify.objective import call_model, sentence_ids, to_probabilities
from regard.tasks.classify.run import Classifier


class TextClassifierExplainer(Explainer):
    """A classifier with one text; the target is a class, and its score is the probability.

    Args:
        run: The trained classifier.
        text: The text.
        label: The class to explain. Default: the predicted class.
    """

    def __init__(self, run: Classifier, text: str, label: str | None = None):
        require_attention(run.fitted or run.model, run.settings.model_name)
        if not text.strip():
            raise UserError("the text is empty")
        if label is not None and label not in run.labels:
            raise UserError(f"the run has no label {label!r}; {did_you_mean(label, run.labels)}")
        self.run, self.model, self.text = run, run.model, text
        size = run.settings.ensemble_size
        self.model_name = run.settings.model_name + (f" × {size}" if size > 1 else "")
        self.folder = str(run.folder or "")
        self.documents = encode_texts([text], run.tokenizer, run.settings)
        encoding, n = run.tokenizer.encode(text), len(self.documents.ids)
        offsets, words = encoding.offsets[:n] or [(0, len(text))], encoding.word_ids[:n] or [0]
        self.tokens = [
            {"text": text[a:b] or run.tokenizer.token(int(i)), "start": a, "end": b, "word": int(w), "special": False}
            for i, (a, b), w in zip(self.documents.ids, offsets, words, strict=True)
        ]
        self.sentence_bounds = self.documents.document(0)[1]
        self.sentences = torch.from_numpy(sentence_ids(self.documents).astype(np.int64))
        self.target = int(self._predict().argmax()) if label is None else run.labels.index(label)
        self.targets = [run.labels[self.target]]

    @property
    def ids(self) -> Tensor:
        return torch.from_numpy(self.documents.ids.astype(np.int64))

    def scores(self, token_indices: Sequence[np.ndarray]) -> Tensor:
        rows = [torch.from_numpy(row) for row in token_indices]
        ids, mask = pad_ids([self.ids[row] for row in rows], UNK)
        sentences, _ = pad_ids([self.sentences[row] for row in rows], 0)
        return self._probabilities(ids, mask, sentences)[:, self.target, None]

    def scores_from_ids(self, ids: Tensor) -> Tensor:
        mask = torch.ones(ids.shape, dtype=torch.bool)
        return self._probabilities(ids, mask, self.sentences.expand(ids.shape))[:, self.target, None]

    def _probabilities(self, ids: Tensor, mask: Tensor, sentences: Tensor) -> Tensor:
        """(b, classes) with gradients."""
        return to_probabilities(call_model(self.model, ids, mask, sentences).logits, self.run.multi_label)

    @torch.no_grad()
    def _predict(self) -> Tensor:
        mask = torch.ones(1, len(self.ids), dtype=torch.bool)
        return self._probabilities(self.ids[None], mask, self.sentences[None])[0]

    def probabilities(self) -> dict[str, float]:
        by_label = dict(zip(self.run.labels, map(float, self._predict()), strict=True))
        return dict(sorted(by_label.items(), key=lambda item: -item[1]))

    def axis_sizes(self) -> dict[str, int]:
        return {"tokens": len(self.tokens), "sentences": len(self.sentence_bounds) - 1, "document": 1}

    def page_fields(self) -> dict[str, Any]:
        return {"sentences": [[int(a), int(b)] for a, b in pairwise(self.sentence_bounds)]}

    def token_weights(self, axis: str, weights: np.ndarray) -> np.ndarray | None:
        if axis != "sentences":
            return super().token_weights(axis, weights)
        sizes = np.diff(self.sentence_bounds)  # the weight of a sentence is divided among its tokens
        return np.repeat(weights / np.maximum(sizes, 1), sizes, -1)

    def attribute(self, maps: list[AttentionMap]) -> Attribution | None:
        attribution = token_attribution(maps)
        if attribution is None:
            return None
        weights = attribution.token_weights.double().numpy()[None]
        return Attribution(weights, attribution.description, _page_fields(attribution))


def look(
    run: Classifier,
    text: str,
    *,
    label: str | None = None,
    evidence: list[tuple[int, int]] | None = None,
    faithful: bool = True,
    what_if: Sequence[Intervention | str] = (),
) -> Look:
    """Show the attention of a classifier on a text. `Classifier.look` documents the arguments."""
    explainer = TextClassifierExplainer(run, text, label)
    limit, notes = run.settings.data.max_tokens, []
    if explainer.documents.num_truncated:
        notes.append(f"The text has more than {limit} tokens; it was truncated to the first {limit}.")
    result = build_look(explainer, faithful=faithful, interventions=what_if, notes=notes)
    return result if evidence is None else Look(add_evidence(result.data, evidence))


def _page_fields(attribution: TokenAttribution) -> dict[str, Any]:
    """Weights of sentences and hops for the page."""
    fields: dict[str, Any] = {}
    if attribution.sentence_weights is not None and attribution.within_sentence is not None:
        fields["sentence_weights"] = attribution.sentence_weights.tolist()
        fields["within_sentence"] = attribution.within_sentence.tolist()
    if attribution.hop_weights is not None:
        overlap = hop_overlap(attribution.hop_weights)
        fields["hops"] = {
            "weights": attribution.hop_weights.tolist(),
            "overlap": {
                "matrix": overlap.matrix.tolist(),
                "between_hops": overlap.between_hops,
                "within_hop": overlap.within_hop,
                "penalty": overlap.penalty,
            },
        }
    return fields
