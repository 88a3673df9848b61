"""Look into a captioner: its caption of an image, the attention of each word, and whether a word becomes less likely
without the attended cells.

The model reads the complete caption again, so that one forward pass scores all words. Cells of the image are erased.
Row t of the attention to the image is computed before word t is chosen, and is part of the state from which it is
chosen.
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
    from regard.tasks.caption.run import ImageCaptioner

END_TOKEN = SPECIAL_TOKENS[EOS]


class CaptionExplainer(ImageExplainer):
    """Explains the log probability of each word of a caption. `ids` are the words, without [EOS]."""

    score_name = "log p"
    row_description = "attention of each word"

    def __init__(self, run: ImageCaptioner, image: ImageInput, ids: Sequence[int]):
        super().__init__(run.model, image, name=run.settings.model_name, folder=str(run.folder or ""))
        self.caption_ids = [*ids, EOS]
        self.targets = [run.tokenizer.decode([id]).strip() or "␣" for id in ids]

    def image_scores(self, images: Tensor) -> Tensor:
        ids = torch.tensor(self.caption_ids)
        inputs = torch.cat((torch.tensor([BOS]), ids[:-1])).expand(len(images), -1)
        logits = self.model(images, inputs).float()
        log_probs = logits.log_softmax(-1).gather(-1, ids.expand(len(images), -1)[..., None])[..., 0]
        return log_probs[:, : len(self.targets)]

    def probabilities(self) -> dict[str, float]:
        return {}

    def page_fields(self) -> dict[str, Any]:
        fields = super().page_fields()
        axes = {
            "caption": {"names": [*self.targets, END_TOKEN]},
            "before": {"names": [SPECIAL_TOKENS[BOS], *self.targets]},
        }
        targets = [{"tokens": [], "log_p": float(p)} for p in self.full_scores()]
        return {**fields, "axes": {**fields["axes"], **axes}, "targets": targets, "caption": " ".join(self.targets)}

    def label_axes(self, attention_map: AttentionMap) -> AttentionMap:
        if attention_map.layer.startswith("image_encoder."):
            return replace(attention_map, rows="grid", columns="grid")
        return replace(attention_map, rows="caption", columns="grid" if attention_map.columns == "source" else "before")

    def target_rows(self, axis: str, count: int) -> list[list[int]]:
        all_rows = list(range(count))
        return [[i] if axis == "caption" else all_rows for i in range(len(self.targets))]

    def attribute(self, maps: list[AttentionMap]) -> Attribution | None:
        layers = [m.weights.mean(0) for m in maps if m.rows == "caption" and m.columns == "grid"]
        if not self.targets or not layers:
            return None
        rows = torch.stack(layers).mean(0)[: len(self.targets)].double().numpy()
        description = "mean attention of all words; choose a word to see its own"
        return Attribution(rows, f"{description}. Mean over layers and heads" if len(layers) > 1 else description)


def look(
    run: ImageCaptioner,
    path: str | Path,
    *,
    label: str | None = None,
    faithful: bool = True,
    what_if: Sequence[Intervention | str] = (),
) -> Look:
    """Build the page of an image. See `ImageCaptioner.look`."""
    if label is not None:
        raise UserError("--label is for classifiers; a captioner has no classes")
    explainer = build_explainer(run, path)
    notes = [*explainer.image.notes, *(["The caption of this image is empty."] if not explainer.targets else [])]
    return build_look(explainer, faithful=faithful, interventions=what_if, notes=notes)


def build_explainer(run: ImageCaptioner, path: str | Path) -> CaptionExplainer:
    """Caption an image and return its explainer."""
    image = read_image_input(run, path)
    image = replace(image, array=run.hide_if_blank(image.array))
    return CaptionExplainer(run, image, run.generate_captions(image.array[None])[0].ids)


def measure_faithfulness(run: ImageCaptioner, image: np.ndarray, ids: Sequence[int]) -> dict[str, Any]:
    """Measure the faithfulness of the attention maps of a caption, for each word and for all together."""
    data = build_look(CaptionExplainer(run, ImageInput("", image), ids), heads=False).data
    words = [target["faithfulness"] for target in data.get("targets") or []]
    return {"all": data.get("faithfulness") or {"verdict": "The caption is empty.", "metrics": []}, "words": words}
