"""Look into a run on one text: maps, the attention that reaches the output, and whether to believe it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from regard import viewer
from regard.data import batches, documents
from regard.data.tokenizer import UNK
from regard.errors import UserError
from regard.inspect import attends, explain, faithfulness, maps, record
from regard.tasks.classify import sentence_numbers

if TYPE_CHECKING:
    from regard.runs.classifier import Classifier

MOST_MAP_TOKENS = 512
BATCH_TOKENS = 16_384


class Look:
    """What was seen; `data` is plain data, `save` writes the page, a notebook shows it."""

    def __init__(self, data: dict[str, Any]):
        self.data = data

    def html(self) -> str:
        return viewer.page(self.data)

    def save(self, path: str | Path) -> Path:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.html(), encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        return viewer.notebook(self.data)


def look(run: Classifier, text: str, *, evidence: list[tuple[int, int]] | None = None, faithful: bool = True) -> Look:
    """`evidence`: character spans that are known to decide, where they are known."""
    if not isinstance(run.model, nn.Module) or run.tokenizer is None or not attends(run.model):
        raise UserError(f"model {run.settings.model_name!r} has no attention to look at")
    if not text.strip():
        raise UserError("there is nothing to look at: the text is empty")
    most = run.settings.data.max_tokens
    found = documents.encode([text], run.tokenizer, max_tokens=most)
    encoding = run.tokenizer.encode(text)
    n = len(found.ids)
    ids = torch.from_numpy(found.ids.astype(np.int64))
    sentences = torch.from_numpy(sentence_numbers(found).astype(np.int64))
    bounds = found.document(0)[1]
    with torch.no_grad(), record(run.model) as recording:
        out = run.model(ids[None], torch.ones(1, n, dtype=torch.bool), sentences[None])
    chances = out.logits[0].float().softmax(-1)
    best = int(chances.argmax())
    seen = maps(recording, 0, {"tokens": n, "sentences": len(bounds) - 1, "document": 1})
    spoken = explain(seen)
    offsets, words = encoding.offsets[:n] or [(0, len(text))], encoding.words[:n] or [0]
    data: dict[str, Any] = {
        "title": text if len(text) <= 60 else text[:57] + "...",
        "model": run.settings.model_name,
        "run": str(run.folder or ""),
        "text": text,
        "tokens": [
            {"text": text[a:b] or run.tokenizer.token(int(i)), "start": a, "end": b, "word": int(w), "special": False}
            for i, (a, b), w in zip(found.ids, offsets, words, strict=True)
        ],
        "sentences": [[int(a), int(b)] for a, b in pairwise(bounds)],
        "prediction": {
            "label": run.labels[best],
            "probabilities": {label: float(p) for label, p in zip(run.labels, chances, strict=True)},
        },
        "maps": [
            {**viewer.quantise(m.weights.numpy()), "site": m.site, "rows": m.rows, "columns": m.columns}
            for m in seen
            if max(m.weights.shape[1:]) <= MOST_MAP_TOKENS
        ],
        "notes": [f"The text has more than {most} tokens; only the first {most} were read."] if found.cut else [],
    }
    if any(max(m.weights.shape[1:]) > MOST_MAP_TOKENS for m in seen):
        data["notes"].append(f"Maps of more than {MOST_MAP_TOKENS} tokens a side are left out.")
    if spoken is not None:
        weights = spoken.tokens.double().numpy()
        data["weights"], data["weights_how"] = weights.tolist(), spoken.how
        if spoken.sentences is not None:
            data["sentence_weights"] = spoken.sentences.tolist()
        if evidence is not None:
            data["evidence"] = [list(span) for span in evidence]
            data["evidence_share"] = evidence_share(weights, offsets, evidence)
        if faithful:
            data["faithfulness"] = _faithfulness(run.model, ids, sentences, weights, words, run.labels[best], best)
    return Look(data)


def evidence_share(
    weights: np.ndarray, offsets: Sequence[tuple[int, int]], evidence: Sequence[tuple[int, int]]
) -> float:
    """How much of the attention falls on tokens that overlap the evidence."""
    inside = [any(a < end and start < b for start, end in evidence) for a, b in offsets]
    return float(weights[np.array(inside)].sum() / max(weights.sum(), 1e-12))


def _faithfulness(
    model: nn.Module, ids: Tensor, sentences: Tensor, weights: np.ndarray, words: Sequence[int], label: str, target: int
) -> dict[str, Any]:
    def predict(kept: Sequence[np.ndarray]) -> np.ndarray:
        rows = [np.flatnonzero(k) for k in kept]
        chances = np.empty(len(rows), np.float32)
        plan = batches.plan([len(r) for r in rows], BATCH_TOKENS, seed=0, epoch=0, shuffle=False)
        for part in plan:  # a long text many times over would not fit into memory at once
            chances[part] = chance([torch.from_numpy(rows[i]) for i in part])
        return chances

    @torch.no_grad()
    def chance(rows: Sequence[Tensor]) -> np.ndarray:
        longest = max(1, max(len(r) for r in rows))
        batch = torch.full((len(rows), longest), 0)
        numbers, mask = torch.zeros_like(batch), torch.zeros(len(rows), longest, dtype=torch.bool)
        for i, row in enumerate(rows):
            batch[i, : len(row)], numbers[i, : len(row)], mask[i, : len(row)] = ids[row], sentences[row], True
            if not len(row):
                batch[i, 0], mask[i, 0] = UNK, True
        return model(batch, mask, numbers).logits.float().softmax(-1)[:, target].numpy()

    found = faithfulness(predict, weights, words, label)
    rows = [
        {"measure": m.name, "attention": m.attention, "random": m.random, "uniform": None, "explain": m.explain}
        for m in found.measures
    ]
    return {"sentence": found.sentence, "rows": rows}
