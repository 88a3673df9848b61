"""Look into a captioner: what it says of a picture, where each word was looked for, and whether the word becomes less
likely without these places.

The caption is given to the model once more, whole, so that all of its words are asked about in one pass; the picture is
what is erased. Row t of the attention to the picture is made before the word t is said, and enters the state that it is
said from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.data.tokenizer import BOS, EOS, SPECIAL_TOKENS
from regard.errors import UserError
from regard.explain.build import seen_by
from regard.explain.interventions import Change
from regard.explain.subject import Picture
from regard.inspect import AttentionMap
from regard.tasks.images.look import Given, Pictured, given

if TYPE_CHECKING:
    from regard.tasks.caption.run import CaptionRun
    from regard.tasks.classify.look import Look

ENDS = SPECIAL_TOKENS[EOS]


class Told(Pictured):
    """A captioner with a picture and what it says of it: `ids` are the words, without the end."""

    said = "log p"
    speaks = "what each word regards"

    def __init__(self, run: CaptionRun, one: Given, ids: Sequence[int]):
        super().__init__(run.net, one, name=run.settings.model_name, folder=str(run.folder or ""))
        self.spoken = [*ids, EOS]
        self.labels = [run.words.decode([id]).strip() or "␣" for id in ids]

    def asked(self, pictures: Tensor) -> Tensor:
        words = torch.tensor(self.spoken)
        before = torch.cat((torch.tensor([BOS]), words[:-1])).expand(len(pictures), -1)
        logits = self.net(pictures, before).float()
        said = logits.log_softmax(-1).gather(-1, words.expand(len(pictures), -1)[..., None])[..., 0]
        return said[:, : len(self.labels)]

    def chances(self) -> dict[str, float]:
        return {}

    def parts(self) -> dict[str, Any]:
        made = super().parts()
        axes = {"said": {"names": [*self.labels, ENDS]}, "before": {"names": [SPECIAL_TOKENS[BOS], *self.labels]}}
        shown = [{"tokens": [], "log_p": float(p)} for p in self.whole()]
        return {**made, "axes": {**made["axes"], **axes}, "questions": shown, "caption": " ".join(self.labels)}

    def named(self, found: AttentionMap) -> AttentionMap:
        if found.layer.startswith("image_encoder."):
            return replace(found, rows="grid", columns="grid")
        return replace(found, rows="said", columns="grid" if found.columns == "source" else "before")

    def asking(self, rows: str, count: int) -> list[list[int]]:
        every = list(range(count))
        return [[i] if rows == "said" else every for i in range(len(self.labels))]

    def picture(self, seen: list[AttentionMap]) -> Picture | None:
        sites = [m.weights.mean(0) for m in seen if m.rows == "said" and m.columns == "grid"]
        if not self.labels or not sites:
            return None
        rows = torch.stack(sites).mean(0)[: len(self.labels)].double().numpy()
        how = "what the words attend to in the mean; choose one to see where it was looked for"
        return Picture(rows, f"{how}. Layers and heads are in the mean" if len(sites) > 1 else how)


def look(
    run: CaptionRun,
    path: str | Path,
    *,
    label: str | None = None,
    faithful: bool = True,
    changes: Sequence[Change | str] = (),
) -> Look:
    """A page with the picture, its caption, and every map; each word of the caption can be asked about."""
    from regard.tasks.classify.look import Look

    if label is not None:
        raise UserError("--label asks about a class, and a caption has none; leave it out")
    asked = subject(run, path)
    notes = [*asked.one.notes, *(["Nothing is said of this picture."] if not asked.labels else [])]
    return Look(seen_by(asked, faithful=faithful, heads=faithful, changes=changes, notes=notes))


def subject(run: CaptionRun, path: str | Path) -> Told:
    """The run with a picture before it, captioned."""
    one = given(run, path)
    one = replace(one, array=run.shown(one.array))
    return Told(run, one, run.said(one.array[None])[0].ids)


def believe(run: CaptionRun, picture: np.ndarray, ids: Sequence[int]) -> dict[str, Any]:
    """How far to believe where the words of a caption were looked for: of each, and of all together."""
    seen = seen_by(Told(run, Given("", picture), ids), heads=False)
    each = [question["faithfulness"] for question in seen.get("questions") or []]
    return {"all": seen.get("faithfulness") or {"sentence": "Nothing was said.", "rows": []}, "words": each}
