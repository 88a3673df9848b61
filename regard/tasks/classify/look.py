"""Look into a run on one text: maps, the attention that reaches the output, and whether to believe it."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import pages
from regard.data.tokenizer import UNK
from regard.errors import UserError, did_you_mean
from regard.explain.build import build_look
from regard.explain.interventions import Intervention
from regard.explain.rationales import compared, spans_of
from regard.explain.explainer import Attribution, Explainer, require_attention, pad_ids
from regard.inspect import AttentionMap, TokenAttribution, hop_overlap, token_attribution
from regard.pages.image_overlay import overlay_png, overlay_svg
from regard.pages.quantized_maps import restore
from regard.tasks.classify.objective import sentence_numbers
from regard.tasks.classify.run import Classifier, encoded

logger = logging.getLogger(__name__)

BATCH_TOKENS = 16_384
FORMS = (".html", ".svg", ".png", ".json", ".csv")


class Look:
    """What was seen; `data` is plain data, `save` writes the page or a drawing of the text, a notebook shows it."""

    def __init__(self, data: dict[str, Any]):
        self.data = data

    def html(self) -> str:
        return pages.page(self.data)

    def svg(self) -> str:
        if self.data.get("cells"):
            return overlay_svg(self.data)
        return pages.svg(self.data)

    def png(self) -> bytes:
        """`say` is told what could not be drawn as it should, for want of a font."""
        if self.data.get("cells"):
            return overlay_png(self.data)
        from regard.pages.png import png

        painted, notes = png(self.data)
        for note in notes:
            logger.info(note)
        return painted

    def json(self) -> str:
        """All that was seen but the maps, which `maps` gives."""
        return json.dumps({k: v for k, v in self.data.items() if k not in ("maps", "other")}, ensure_ascii=False)

    def csv(self) -> str:
        """A line for each token: its place, its weight."""
        file = io.StringIO()
        writer = csv.writer(file)
        writer.writerow(["token", "text", "start", "end", "word", "special", "weight"])
        for i, token in enumerate(self.data["tokens"]):
            weight = self.data["weights"][i] if self.data.get("weights") is not None else ""
            writer.writerow([i, *(token[k] for k in ("text", "start", "end", "word", "special")), weight])
        return file.getvalue()

    def maps(self) -> dict[str, np.ndarray]:
        """By site, (heads, rows, columns), each weight to half a step of what was recorded."""
        return {stored["site"]: restore(stored) for stored in self.data["maps"]}

    def beside(self, other: Look) -> Look:
        """One page with both, side by side and as a difference: two runs, or two checkpoints, on the same text."""
        if other.data["text"] != self.data["text"] and "translation" not in self.data:
            raise UserError("two looks stand beside each other only on the same text, or on the same grid of a picture")
        return Look({**self.data, "other": {k: v for k, v in other.data.items() if k != "other"}})

    def against(self, *evidence: str | tuple[int, int]) -> Look:
        """The same beside words that are known to decide, as they are written or as spans of characters."""
        words = [one for one in evidence if isinstance(one, str)]
        spans = [one for one in evidence if not isinstance(one, str)]
        size = len(self.data["text"]) - (len(self.data["translation"]) + 1 if "translation" in self.data else 0)
        return Look(compared(self.data, [*spans, *spans_of(self.data["text"][:size], words)]))

    def save(self, path: str | Path) -> Path:
        """As a page (.html), the text with its weights as a drawing (.svg, .png), or its numbers (.json, .csv)."""
        path = form(path)
        ways = {".html": self.html, ".svg": self.svg, ".png": lambda: self.png(), ".json": self.json}
        content = {**ways, ".csv": self.csv}[path.suffix.lower()]()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def _repr_html_(self) -> str:
        return pages.notebook(self.data)


def form(path: str | Path) -> Path:
    """The path, if its ending is one that a look can be saved as."""
    if Path(path).suffix.lower() not in FORMS:
        raise UserError(f"a look is saved as {', '.join(FORMS)}, and {str(path)!r} was given")
    return Path(path)


class Reviewed(Explainer):
    """A classifier with a text before it; what is asked is p of one class."""

    def __init__(self, run: Classifier, text: str, label: str | None = None):
        require_attention(run.model, run.settings.model_name)
        if not text.strip():
            raise UserError("there is nothing to look at: the text is empty")
        if label is not None and label not in run.labels:
            raise UserError(f"the run knows no label {label!r}; {did_you_mean(label, run.labels)}")
        self.run, self.model, self.text = run, run.net, text
        votes = f" × {run.settings.members}" if run.settings.members > 1 else ""
        self.model_name, self.folder = run.settings.model_name + votes, str(run.folder or "")
        self.found = encoded([text], run.words, run.settings)
        encoding, n = run.words.encode(text), len(self.found.ids)
        self.offsets, words = encoding.offsets[:n] or [(0, len(text))], encoding.word_ids[:n] or [0]
        self.tokens = [
            {"text": text[a:b] or run.words.token(int(i)), "start": a, "end": b, "word": int(w), "special": False}
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
        places = [torch.from_numpy(row) for row in rows]
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
        if columns != "sentences":
            return super().token_weights(axis, weights)
        sizes = np.diff(self.bounds)
        return np.repeat(weights / np.maximum(sizes, 1), sizes, -1)

    def attribute(self, maps: list[AttentionMap]) -> Attribution | None:
        spoken = token_attribution(seen)
        if spoken is None:
            return None
        return Attribution(spoken.tokens.double().numpy()[None], spoken.how, _more(spoken))


def look(
    run: Classifier,
    text: str,
    *,
    label: str | None = None,
    evidence: list[tuple[int, int]] | None = None,
    faithful: bool = True,
    changes: Sequence[Intervention | str] = (),
) -> Look:
    """`label`: which class is asked about, if not the most probable one; `evidence`: character spans that are known to
    decide, where they are known; `changes`: what if (regard.explain.interventions)."""
    subject = Reviewed(run, text, label)
    most = run.settings.data.max_tokens
    notes = [f"The text has more than {most} tokens; only the first {most} were read."] if subject.found.num_truncated else []
    data = seen_by(subject, faithful=faithful, heads=faithful, changes=changes, notes=notes)
    return Look(data if evidence is None else compared(data, evidence))


def _more(spoken: TokenAttribution) -> dict[str, Any]:
    """The further parts of an explanation, as plain data."""
    data: dict[str, Any] = {}
    if spoken.sentences is not None and spoken.within is not None:
        data["sentence_weights"], data["within"] = spoken.sentences.tolist(), spoken.within.tolist()
    if spoken.hops is not None:
        shared = hop_overlap(spoken.hops)
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
