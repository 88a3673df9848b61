"""Small true models of pictures, shaken so that their attention is not even, with a picture before them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from small_subjects import shaken

from regard.explain.image_uri import embedded
from regard.models.image_classifier import ImageClassifierConfig as Classifier
from regard.models.rnn_captioner import RNNCaptionerConfig as Captioner
from regard.tasks.caption.look import Told
from regard.tasks.images.look import Given, Sorted

CLASSES, WORDS, IDS = ["cat", "dog", "boat"], [f"w{i}" for i in range(30)], [7, 9, 8, 11]


def one(side: int = 24) -> Given:
    values = np.random.default_rng(3).integers(0, 256, (side, side, 3)).astype(np.uint8)
    return Given("photo.png", values, embedded(np.kron(values, np.ones((4, 4, 1), np.uint8))), ("noted",))


def about(name: str) -> dict:
    return {"settings": SimpleNamespace(model_name=name), "folder": f"runs/{name}"}


def sorted_(seed: int = 0, label: str | None = None) -> Sorted:
    torch.manual_seed(seed)
    net = shaken(Classifier(channels=(8, 12), dim=16, heads=2, dropout=0.0).build(3), seed)
    return Sorted(SimpleNamespace(net=net, labels=CLASSES, **about("attention")), one(), label)


def told(seed: int = 0) -> Told:
    torch.manual_seed(seed)
    net = shaken(Captioner(channels=(8, 12), dim=16, hidden=14, layers=1, dropout=0.0).build(30), seed)
    words = SimpleNamespace(decode=lambda ids: WORDS[ids[0]])
    return Told(SimpleNamespace(net=net, words=words, **about("rnn")), one(), IDS)
