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
from regard.explain.build import build_look
from regard.explain.explainer import Attribution
from regard.explain.interventions import Intervention
from regard.inspect import AttentionMap
from regard.tasks.images.look import ImageExplainer, ImageInput, read_image_input

if TYPE_CHECKING:
    from regard.explain.look_result import Look
    from regard.tasks.caption.run import CaptionRun

ENDS = SPECIAL_TOKENS[EOS]


class CaptionExplainer(ImageExplainer):
    """A captioner with a picture and what it says of it: `ids` are the words, without the end."""

    score_name = "log p"
    row_description = "what each word regards"

    def __init__(self, run: CaptionRun, one: ImageInput, ids: Sequence[int]):
        super().__init__(run.model, one, name=run.settings.model_name, folder=str(run.folder or ""))
        self.caption_ids = [*ids, EOS]
        self.targets = [run.tokenizer.decode([id]).strip() or "␣" for id in ids]

    def image_scores(self, pictures: Tensor) -> Tensor:
        words = torch.tensor(self.caption_ids)
        before = torch.cat((torch.tensor([BOS]), words[:-1])).expand(len(pictures), -1)
        logits = self.model(pictures, before).float()
        said = logits.log_softmax(-1).gather(-1, words.expand(len(pictures), -1)[..., None])[..., 0]
        return said[:, : len(self.targets)]

    def probabilities(self) -> dict[str, float]:
        return {}

    def page_fields(self) -> dict[str, Any]:
        fields = super().page_fields()
        axes = {"caption": {"names": [*self.targets, ENDS]}, "before": {"names": [SPECIAL_TOKENS[BOS], *self.targets]}}
        targets = [{"tokens": [], "log_p": float(p)} for p in self.full_scores()]
        return {**fields, "axes": {**fields["axes"], **axes}, "targets": targets, "caption": " ".join(self.targets)}

    def label_axes(self, attention_map: AttentionMap) -> AttentionMap:
        if attention_map.layer.startswith("image_encoder."):
            return replace(attention_map, rows="grid", columns="grid")
        return replace(attention_map, rows="caption", columns="grid" if attention_map.columns == "source" else "before")

    def target_rows(self, axis: str, count: int) -> list[list[int]]:
        every = list(range(count))
        return [[i] if axis == "caption" else every for i in range(len(self.targets))]

    def attribute(self, maps: list[AttentionMap]) -> Attribution | None:
        sites = [m.weights.mean(0) for m in maps if m.rows == "caption" and m.columns == "grid"]
        if not self.targets or not sites:
            return None
        rows = torch.stack(sites).mean(0)[: len(self.targets)].double().numpy()
        how = "what the words attend to in the mean; choose one to see where it was looked for"
        return Attribution(rows, f"{how}. Layers and heads are in the mean" if len(sites) > 1 else how)


def look(
    run: CaptionRun,
    path: str | Path,
    *,
    label: str | None = None,
    faithful: bool = True,
    what_if: Sequence[Intervention | str] = (),
) -> Look:
    """A page with the picture, its caption, and every map; each word of the caption can be asked about."""
    if label is not None:
        raise UserError("--label asks about a class, and a caption has none; leave it out")
    explainer = build_explainer(run, path)
    notes = [*explainer.image.notes, *(["Nothing is said of this picture."] if not explainer.targets else [])]
    return build_look(explainer, faithful=faithful, interventions=what_if, notes=notes)


def build_explainer(run: CaptionRun, path: str | Path) -> CaptionExplainer:
    """The run with a picture before it, captioned."""
    one = read_image_input(run, path)
    one = replace(one, array=run.shown(one.array))
    return CaptionExplainer(run, one, run.said(one.array[None])[0].ids)


def believe(run: CaptionRun, picture: np.ndarray, ids: Sequence[int]) -> dict[str, Any]:
    """How far to believe where the words of a caption were looked for: of each, and of all together."""
    data = build_look(CaptionExplainer(run, ImageInput("", picture), ids), heads=False).data
    words = [target["faithfulness"] for target in data.get("targets") or []]
    return {"all": data.get("faithfulness") or {"verdict": "The caption is empty.", "metrics": []}, "words": words}
