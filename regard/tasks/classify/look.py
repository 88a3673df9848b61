"""Look into a run on one text: maps, the attention that reaches the output, and whether to believe it."""

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
from regard.tasks.classify.objective import sentence_numbers
from regard.tasks.classify.run import Classifier

BATCH_TOKENS = 16_384


class TextClassifierExplainer(Explainer):
    """A classifier with a text before it; what is asked is p of one class."""

    def __init__(self, run: Classifier, text: str, label: str | None = None):
        require_attention(run.model, run.settings.model_name)
        if not text.strip():
            raise UserError("there is nothing to look at: the text is empty")
        if label is not None and label not in run.labels:
            raise UserError(f"the run knows no label {label!r}; {did_you_mean(label, run.labels)}")
        self.run, self.model, self.text = run, run.model, text
        votes = f" × {run.settings.members}" if run.settings.members > 1 else ""
        self.model_name, self.folder = run.settings.model_name + votes, str(run.folder or "")
        self.found = encode_texts([text], run.tokenizer, run.settings)
        encoding, n = run.tokenizer.encode(text), len(self.found.ids)
        self.offsets, words = encoding.offsets[:n] or [(0, len(text))], encoding.word_ids[:n] or [0]
        self.tokens = [
            {"text": text[a:b] or run.tokenizer.token(int(i)), "start": a, "end": b, "word": int(w), "special": False}
            for i, (a, b), w in zip(self.found.ids, self.offsets, words, strict=True)
        ]
        self.bounds = self.found.document(0)[1]
        self.sentences = torch.from_numpy(sentence_numbers(self.found).astype(np.int64))
        chances = self._chances()
        self.target = int(chances.argmax()) if label is None else run.labels.index(label)
        self.targets = [run.labels[self.target]]

    @property
    def batch_tokens(self) -> int:  # type: ignore[override]
        return BATCH_TOKENS

    @property
    def ids(self) -> Tensor:
        return torch.from_numpy(self.found.ids.astype(np.int64))

    def scores(self, token_indices: Sequence[np.ndarray]) -> Tensor:
        places = [torch.from_numpy(row) for row in token_indices]
        block, mask = pad_ids([self.ids[row] for row in places], UNK)
        numbers, _ = pad_ids([self.sentences[row] for row in places], 0)
        return self.run.chances(self.model(block, mask, numbers).logits)[:, self.target, None]

    def scores_from_ids(self, ids: Tensor) -> Tensor:
        mask = torch.ones(ids.shape, dtype=torch.bool)
        logits = self.model(ids, mask, self.sentences.expand(ids.shape)).logits
        return self.run.chances(logits)[:, self.target, None]

    @torch.no_grad()
    def _chances(self) -> Tensor:
        mask = torch.ones(1, len(self.ids), dtype=torch.bool)
        return self.run.chances(self.model(self.ids[None], mask, self.sentences[None]).logits[0])

    def probabilities(self) -> dict[str, float]:
        named = {name: float(p) for name, p in zip(self.run.labels, self._chances(), strict=True)}
        return dict(sorted(named.items(), key=lambda pair: -pair[1]))

    def axis_sizes(self) -> dict[str, int]:
        return {"tokens": len(self.tokens), "sentences": len(self.bounds) - 1, "document": 1}

    def page_fields(self) -> dict[str, Any]:
        return {"sentences": [[int(a), int(b)] for a, b in pairwise(self.bounds)]}

    def token_weights(self, axis: str, weights: np.ndarray) -> np.ndarray | None:
        """The words of a sentence share what it is given."""
        if axis != "sentences":
            return super().token_weights(axis, weights)
        sizes = np.diff(self.bounds)
        return np.repeat(weights / np.maximum(sizes, 1), sizes, -1)

    def attribute(self, maps: list[AttentionMap]) -> Attribution | None:
        spoken = token_attribution(maps)
        if spoken is None:
            return None
        return Attribution(spoken.token_weights.double().numpy()[None], spoken.description, _more(spoken))


def look(
    run: Classifier,
    text: str,
    *,
    label: str | None = None,
    evidence: list[tuple[int, int]] | None = None,
    faithful: bool = True,
    what_if: Sequence[Intervention | str] = (),
) -> Look:
    """`label`: which class is asked about, if not the most probable one; `evidence`: character spans that are known to
    decide, where they are known; `what_if`: interventions (regard.explain.interventions)."""
    subject = TextClassifierExplainer(run, text, label)
    most = run.settings.data.max_tokens
    notes = (
        [f"The text has more than {most} tokens; only the first {most} were read."]
        if subject.found.num_truncated
        else []
    )
    result = build_look(subject, faithful=faithful, interventions=what_if, notes=notes)
    return result if evidence is None else Look(add_evidence(result.data, evidence))


def _more(spoken: TokenAttribution) -> dict[str, Any]:
    """The further parts of an explanation, as plain data."""
    data: dict[str, Any] = {}
    if spoken.sentence_weights is not None and spoken.within_sentence is not None:
        data["sentence_weights"], data["within_sentence"] = (
            spoken.sentence_weights.tolist(),
            spoken.within_sentence.tolist(),
        )
    if spoken.hop_weights is not None:
        shared = hop_overlap(spoken.hop_weights)
        data["hops"] = {
            "weights": spoken.hop_weights.tolist(),
            "overlap": {
                "matrix": shared.matrix.tolist(),
                "between_hops": shared.between_hops,
                "within_hop": shared.within_hop,
                "penalty": shared.penalty,
            },
        }
    return data
