"""Small image models with perturbed weights, with one image."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from small_explainers import perturb

from regard.explain.image_uri import to_data_uri
from regard.models.image_classifier import ImageClassifier
from regard.models.rnn_captioner import RNNCaptioner
from regard.tasks.caption.look import CaptionExplainer
from regard.tasks.images.look import ImageClassifierExplainer, ImageInput

CLASSES, WORDS, IDS = ["cat", "dog", "boat"], [f"w{i}" for i in range(30)], [7, 9, 8, 11]


def random_image(side: int = 24) -> ImageInput:
    values = np.random.default_rng(3).integers(0, 256, (side, side, 3)).astype(np.uint8)
    return ImageInput("photo.png", values, to_data_uri(np.kron(values, np.ones((4, 4, 1), np.uint8))), ("a note",))


def run_fields(name: str) -> dict:
    return {"settings": SimpleNamespace(model_name=name), "folder": f"runs/{name}"}


def image_classifier_explainer(seed: int = 0, label: str | None = None) -> ImageClassifierExplainer:
    torch.manual_seed(seed)
    model = perturb(ImageClassifier(3, channels=(8, 12), dim=16, heads=2, dropout=0.0), seed)
    return ImageClassifierExplainer(
        SimpleNamespace(model=model, labels=CLASSES, **run_fields("attention")), random_image(), label
    )


def caption_explainer(seed: int = 0) -> CaptionExplainer:
    torch.manual_seed(seed)
    model = perturb(RNNCaptioner(30, channels=(8, 12), dim=16, hidden=14, layers=1, dropout=0.0), seed)
    tokenizer = SimpleNamespace(decode=lambda ids: WORDS[ids[0]])
    return CaptionExplainer(SimpleNamespace(model=model, tokenizer=tokenizer, **run_fields("rnn")), random_image(), IDS)
