"""Look into a run on one text: maps, the attention that reaches the output, and whether to believe it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from regard import viewer
from regard.data import batches, documents
from regard.data.tokenizer import UNK
from regard.errors import UserError, nearest
from regard.inspect import Explanation, attends, explain, faithfulness, maps, overlap, record
from regard.tasks.classify import sentence_numbers

if TYPE_CHECKING:
    from regard.runs.classifier import Classifier

MOST_CELLS = 512 * 512  # of a map that is shown; larger ones are never computed
BATCH_TOKENS = 16_384
FORMS = (".html", ".svg", ".png")


class Look:
    """What was seen; `data` is plain data, `save` writes the page or a drawing of the text, a notebook shows it."""

    def __init__(self, data: dict[str, Any]):
        self.data = data

    def html(self) -> str:
        return viewer.page(self.data)

    def svg(self) -> str:
        return viewer.svg(self.data)

    def png(self, say: Callable[[str], Any] = print) -> bytes:
        """`say` is told what could not be drawn as it should, for want of a font."""
        from regard.viewer.png import png

        painted, notes = png(self.data)
        for note in notes:
            say(note)
        return painted

    def save(self, path: str | Path, say: Callable[[str], Any] = print) -> Path:
        """As a page (.html), or the text with its weights as a drawing (.svg, .png)."""
        path = form(path)
        content = {".html": self.html, ".svg": self.svg, ".png": lambda: self.png(say)}[path.suffix.lower()]()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def _repr_html_(self) -> str:
        return viewer.notebook(self.data)


def form(path: str | Path) -> Path:
    """The path, if its ending is one that a look can be saved as."""
    if Path(path).suffix.lower() not in FORMS:
        raise UserError(f"a look is saved as {', '.join(FORMS)}, and {str(path)!r} was given")
    return Path(path)


def look(
    run: Classifier,
    text: str,
    *,
    label: str | None = None,
    evidence: list[tuple[int, int]] | None = None,
    faithful: bool = True,
) -> Look:
    """`label`: which class is asked about, if not the most probable one; `evidence`: character spans that are known to
    decide, where they are known."""
    if not isinstance(run.model, nn.Module) or run.tokenizer is None or not attends(run.model):
        raise UserError(f"model {run.settings.model_name!r} has no attention to look at")
    if not text.strip():
        raise UserError("there is nothing to look at: the text is empty")
    if label is not None and label not in run.labels:
        raise UserError(f"the run knows no label {label!r}; {nearest(label, run.labels)}")
    most = run.settings.data.max_tokens
    found = documents.encode([text], run.tokenizer, max_tokens=most)
    encoding = run.tokenizer.encode(text)
    n = len(found.ids)
    ids = torch.from_numpy(found.ids.astype(np.int64))
    sentences = torch.from_numpy(sentence_numbers(found).astype(np.int64))
    bounds = found.document(0)[1]
    with torch.no_grad(), record(run.model, most=MOST_CELLS) as recording:
        out = run.model(ids[None], torch.ones(1, n, dtype=torch.bool), sentences[None])
    chances = run.chances(out.logits[0])
    target = int(chances.argmax()) if label is None else run.labels.index(label)
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
            "label": run.labels[target],
            "probabilities": {name: float(p) for name, p in zip(run.labels, chances, strict=True)},
        },
        "maps": [
            {**viewer.quantise(m.weights.numpy()), "site": m.site, "rows": m.rows, "columns": m.columns}
            for m in seen
            if m.weights.shape[1] * m.weights.shape[2] <= MOST_CELLS
        ],
        "notes": [f"The text has more than {most} tokens; only the first {most} were read."] if found.cut else [],
    }
    if len(data["maps"]) < len(recording.sites) + len(recording.passed):
        data["notes"].append(f"Maps of more than {MOST_CELLS:,} cells are left out.")
    if spoken is not None:
        weights = spoken.tokens.double().numpy()
        data |= _spoken(spoken, weights)
        if evidence is not None:
            data["evidence"] = [list(span) for span in evidence]
            data["evidence_share"] = evidence_share(weights, offsets, evidence)
        if faithful:
            data["faithfulness"] = _faithfulness(run, ids, sentences, weights, words, target)
    return Look(data)


def _spoken(spoken: Explanation, weights: np.ndarray) -> dict[str, Any]:
    """What explains, as plain data."""
    data: dict[str, Any] = {"weights": weights.tolist(), "weights_how": spoken.how}
    if spoken.sentences is not None and spoken.within is not None:
        data["sentence_weights"], data["within"] = spoken.sentences.tolist(), spoken.within.tolist()
    if spoken.hops is not None:
        shared = overlap(spoken.hops)
        data["hops"] = {
            "weights": spoken.hops.tolist(),
            "overlap": {
                "pairs": shared.pairs.tolist(),
                "between": shared.between,
                "own": shared.own,
                "penalty": shared.penalty,
            },
        }
    return data


def evidence_share(
    weights: np.ndarray, offsets: Sequence[tuple[int, int]], evidence: Sequence[tuple[int, int]]
) -> float:
    """How much of the attention falls on tokens that overlap the evidence."""
    inside = [any(a < end and start < b for start, end in evidence) for a, b in offsets]
    return float(weights[np.array(inside)].sum() / max(weights.sum(), 1e-12))


def _faithfulness(
    run: Classifier, ids: Tensor, sentences: Tensor, weights: np.ndarray, words: Sequence[int], target: int
) -> dict[str, Any]:
    model = run.model
    assert isinstance(model, nn.Module)

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
        return run.chances(model(batch, mask, numbers).logits)[:, target].numpy()

    found = faithfulness(predict, weights, words, run.labels[target])
    rows = [
        {"measure": m.name, "attention": m.attention, "random": m.random, "uniform": None, "explain": m.explain}
        for m in found.measures
    ]
    return {"sentence": found.sentence, "rows": rows}
