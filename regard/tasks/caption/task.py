"""Runs of `caption`: from pictures and a table of captions to a model that says what a picture shows, and where it
looked for each word."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.config.settings import DataSettings, Settings, TokenizerSettings, build
from regard.config.validation import check_fraction
from regard.data import caption_files, tokenizer
from regard.data.caption_files import CaptionedImages
from regard.data.tokenizer import EOS, UNK, Tokenizer
from regard.decoding import Beam
from regard.decoding.caption_decoder import Describer
from regard.errors import UserError
from regard.models.linear_text_model import FittedModel
from regard.models.timm_backbone import seen
from regard.tasks.caption.metrics import scores
from regard.tasks.caption.objective import GREY, MODELS, Caption
from regard.tasks.caption.run import NEVER, CaptionRun, pieces
from regard.tasks.image_augmentation import Augment

logger = logging.getLogger(__name__)

__all__ = ["MODELS"]

RUN = CaptionRun
SIDES = ("left", "right")


@dataclass(frozen=True)
class Data(DataSettings):
    """`train` and `valid` are pictures (a folder or a zip; or features of them, data/features.py) and their captions,
    two names each; `size` is the side of a picture as it is read; `backbone` a model of timm that reads it, with
    `weights` from a file, or fetched if `download` is so (runs/backbone.py). `batch` counts pictures, of which each
    brings `captions` of its own. `scored` pictures are captioned at each evaluation, and their BLEU decides about the
    best model (none: the loss does). `hide` is the share of words that the decoder is not shown in training; `blank`
    hides the pictures: what can be said without looking. `longest` is the most words of a caption to learn from."""

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] | None = None  # type: ignore[assignment]
    valid_fraction: float = 0.05
    size: int = 64
    backbone: str | None = None
    weights: str | None = None
    download: bool = False
    batch: int = 64
    captions: int = 5
    longest: int = 40
    scored: int = 0
    hide: float = 0.0
    blank: bool = False


@dataclass(frozen=True)
class WordSettings(TokenizerSettings):
    kind: str = "spaces"
    vocab: int = 3000


@dataclass(frozen=True)
class CaptionSettings(Settings):
    """`smoothing` is the share of the chance that all words have alike in what is learnt; `doubly` the weight of the
    doubly stochastic term (tasks/caption.py); `augment` how pictures are changed in training."""

    smoothing: float = 0.1
    doubly: float = 0.0
    augment: Augment = field(default_factory=Augment)
    data: Data = field(default_factory=Data)
    tokenizer: WordSettings = field(default_factory=WordSettings)


SETTINGS = CaptionSettings


@dataclass(frozen=True)
class Found:
    """Both parts, decoded."""

    train: CaptionedImages
    valid: CaptionedImages
    info: dict[str, Any]
    backbone: str | None = None


def default(tree: Mapping[str, Any]) -> str:
    return "rnn"


def own(tree: Mapping[str, Any]) -> dict[str, Any]:
    given = tree.get("augment") or {}
    if isinstance(given, Augment):
        return dict(tree)
    if not isinstance(given, Mapping):
        raise UserError(f"augment wants a mapping, such as augment.zoom=0.8, and was given {given!r}")
    return {**tree, "augment": build(Augment, given, where="augment")}


def check(settings: CaptionSettings) -> None:
    data = settings.data
    settings.augment.check()
    share("smoothing", settings.smoothing)
    if not 0 <= data.hide <= 1:
        raise UserError(f"data.hide is a share from 0 to 1, and was given {data.hide}")
    if settings.doubly < 0:
        raise UserError(f"doubly is a weight of 0 or more, and was given {settings.doubly}")
    if not 0 < data.valid_fraction < 1:
        raise UserError(f"data.valid_fraction lies between 0 and 1, and was given {data.valid_fraction}")
    for name, least in (("size", 8), ("batch", 1), ("captions", 1), ("longest", 1), ("scored", 0)):
        if getattr(data, name) < least:
            raise UserError(f"data.{name} must be {least} or more, and was given {getattr(data, name)}")
    for part, files in (("", data.train), ("validation ", data.valid)):
        if files and len(files) != 2:
            raise UserError(
                f"{part}pictures (a folder or a zip) and their captions (a table) are wanted, and {len(files)} names "
                "were given: regard train caption PICTURES CAPTIONS"
            )


def check_config(config: Mapping[str, Any]) -> None:
    _ = config["data"]["train"]["longest"], config["settings"]["data"]["size"]


def read(settings: CaptionSettings, source: Any) -> Found:
    """Decode the pictures of both parts, and set some aside for validation where none are named."""
    if source is not None:
        raise UserError("a captioner is trained on pictures and a table of captions; give their names")
    data = settings.data
    whole, backbone = _seen(settings, data.train, None)
    for note in whole.notes:
        logger.info(note)
    if data.valid is not None:
        train, valid = whole, _seen(settings, data.valid, backbone)[0]
        for note in valid.notes:
            logger.info(f"validation: {note}")
        info = _info(valid, data.valid)
        if both := set(train.names) & set(valid.names):
            logger.warning(f"{len(both):,} pictures of the validation part have the name of one in the training part")
    else:
        if len(whole) < 2:
            raise UserError("two pictures with captions or more are wanted, to set one aside for validation")
        order = np.random.default_rng(settings.seed).permutation(len(whole))
        count = int(np.clip(round(len(whole) * data.valid_fraction), 1, len(whole) - 1))
        train, valid = whole.subset(np.sort(order[count:]).tolist()), whole.subset(np.sort(order[:count]).tolist())
        info = {"rows": count, "split": data.valid_fraction}
        logger.info(f"{count:,} of {len(whole):,} pictures set aside for validation")
    longest = max(len(c.split()) for each in train.captions for c in each)
    about = {**_info(train, data.train), "captions": sum(map(len, train.captions)), "longest": longest}
    return Found(train, valid, {"train": about, "valid": info}, backbone)


def _seen(settings: CaptionSettings, files: tuple[str, ...], known: str | None) -> tuple[CaptionedImages, str | None]:
    """Pictures with their captions, as the model reads them, and the fingerprint of the backbone."""
    part = caption_files.read_captioned_images(files[0], files[1], settings.data.size, on_progress=_told())
    made, fingerprint = seen(part.images, settings.data, known)
    unchanged(made, settings.augment)
    return replace(part, images=made), fingerprint


def unchanged(pictures: np.ndarray, augment: Augment) -> None:
    """Raise where features are to be changed as only pictures can be."""
    if pictures.dtype != np.uint8 and augment != Augment():
        raise UserError("augment changes pictures, and the model is given features of them; leave augment out")


def _told() -> Callable[[int], Any]:
    """Many pictures take minutes to decode."""
    return lambda count: logger.info(f"{count:,} pictures decoded") if count % 10_000 == 0 else None


def _info(part: CaptionedImages, files: tuple[str, ...]) -> dict[str, Any]:
    names = " and ".join(Path(file).name for file in files)
    return {"name": names, "fingerprint": part.fingerprint, "rows": len(part), "notes": part.notes}


def facts(found: Found) -> dict[str, Any]:
    """With the caption that stands most often in the training part: what is said without looking at all."""
    counts = Counter(caption for each in found.train.captions for caption in each)
    return {**features(found.train.images, found.backbone), "commonest": counts.most_common(1)[0][0]}


def features(pictures: np.ndarray, backbone: str | None) -> dict[str, Any]:
    """Of features, what config.json keeps: their shape, and the fingerprint of the backbone that made them."""
    shape = dict(zip(("rows", "columns", "width"), map(int, pictures.shape[1:]), strict=True))
    return {} if pictures.dtype == np.uint8 else {"features": {**shape, "backbone": backbone}}


def width(config: Mapping[str, Any]) -> int | None:
    """Of the features that are read in place of pictures."""
    return config["features"]["width"] if "features" in config else None


def words(settings: CaptionSettings, found: Found) -> Tokenizer:
    texts = [caption for each in found.train.captions for caption in each]
    kind, vocab = settings.tokenizer.kind, settings.tokenizer.vocab
    return tokenizer.train_tokenizer([f" {t}" for t in texts] if kind == "bpe" else texts, kind, vocab)


def net(settings: CaptionSettings, config: Mapping[str, Any]) -> nn.Module:
    return settings.model.build(config["vocab"], width(config))


def task(
    settings: CaptionSettings,
    found: Found,
    words: Tokenizer,
    folder: Path,
    progress: bool,
) -> tuple[Caption, str]:
    data = settings.data
    train, cut = encode(found.train, words, data.longest)
    valid, _ = encode(found.valid, words, None)
    if cut:
        logger.info(f"{cut:,} captions have more than {data.longest} words and are not learnt (--set data.longest=N)")
    pictures = [part.images for part in (found.train, found.valid)]
    job = Caption(
        pictures[0],
        train,
        pictures[1],
        valid,
        batch=data.batch,
        several=data.captions,
        seed=settings.seed,
        smoothing=settings.smoothing,
        doubly=settings.doubly,
        augment=settings.augment,
        hide=data.hide,
        blank=data.blank,
        sides=_sides(words),
        scored=_scored(found.valid, words, data) if data.scored else None,
    )
    count = sum(map(len, train))
    return job, (
        f"{len(train):,} pictures with {count:,} captions, {len(valid):,} for validation, vocabulary {words.vocab_size:,}"
    )


def _sides(words: Tokenizer) -> list[int]:
    """The ids of words that a mirror makes untrue."""
    marked = [f" {word}" if words.kind == "bpe" else word for word in SIDES]
    return [found.ids[0] for found in words.encode_batch_raw(marked) if len(found.ids) == 1 and found.ids[0] != UNK]


def encode(part: CaptionedImages, words: Tokenizer, longest: int | None) -> tuple[list[list[list[int]]], int]:
    """Ids of the captions of each picture, each with its end, and how many had more words than `longest`; a picture
    whose captions all have keeps the shortest, cut."""
    flat = words.encode_batch_raw([f" {c}" if words.kind == "bpe" else c for each in part.captions for c in each])
    rows, cut, at = [], 0, 0
    for each in part.captions:
        ids = [[*e.ids, EOS] for e in flat[at : at + len(each)]]
        at += len(each)
        kept = [row for row, c in zip(ids, each, strict=True) if longest is None or len(c.split()) <= longest]
        cut += len(ids) - len(kept)
        rows.append(kept or [min(ids, key=len)[: (longest or 0) + 1]])
    return rows, cut


def _scored(valid: CaptionedImages, words: Tokenizer, data: Data) -> Callable[[nn.Module], dict[str, float]]:
    """BLEU and exactness of the first validation pictures, said greedily."""
    count = min(data.scored, len(valid))
    pictures, wanted = np.asarray(valid.images[:count]), valid.captions[:count]
    seen = np.full_like(pictures, GREY) if data.blank else pictures

    def scored(model: nn.Module) -> dict[str, float]:
        said = Describer(model, never=NEVER).write(seen, how=Beam(1), limit=pieces(words) * data.longest)
        measured = scores([words.decode(one[0].ids).strip() for one in said], wanted)
        return {name: measured[name] for name in ("bleu", "exact")}

    return scored


def fit(settings: CaptionSettings, found: Found) -> tuple[FittedModel, dict[str, float]]:
    raise NotImplementedError("every captioner is trained in steps")


def size(info: Mapping[str, Any]) -> str:
    return f"{info['rows']:,} pictures"


def uses(config: Mapping[str, Any]) -> list[str]:
    return ["regard caption FOLDER PICTURE", "regard look FOLDER PICTURE", "regard evaluate FOLDER PICTURES CAPTIONS"]


def about(config: Mapping[str, Any]) -> str:
    return f"{how_read(config)} It knows {config['vocab']:,} words."


def how_read(config: Mapping[str, Any]) -> str:
    """Of pictures, in words."""
    side, given = config["settings"]["data"]["size"], config.get("features")
    if given is None:
        return f"Pictures are read at {side} x {side}."
    shape = f"{given['rows']} x {given['columns']} x {given['width']}"
    backbone = config["settings"]["data"].get("backbone")
    if backbone is None:
        return f"In place of pictures it reads features of {shape}."
    return f"Pictures are read at {side} x {side} by {backbone}, which makes features of {shape}."
