"""Training objective of `caption`: batches of images, each with several captions that share the encoded image.

    loss = Σ_t -log P(w_t | w_<t, image)  + λ Σ_xy (1 - Σ_t α_t[x, y])²

Label smoothing is as in translation. The second term, of weight `doubly_stochastic` (λ), makes the attention of all
words of a caption sum to about one at each cell (doubly stochastic attention, Xu et al. 2015, section 4.2.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.token_positions import Grid
from regard.data import batches
from regard.data.tokenizer import BOS, UNK
from regard.inspect import find_attention_layers
from regard.tasks.image_augmentation import augment_images
from regard.tasks.image_settings import AugmentSettings
from regard.training.objective import LossTerm

GRAY = 115  # color of a hidden image


@dataclass(frozen=True)
class CaptionBatch:
    """A batch of b images with w captions each.

    Attributes:
        images: (b, height, width, 3); (1, ...) if all images are hidden.
        inputs: (b · w, n), captions starting with [BOS].
        positions: (k,), positions of real tokens in the flattened inputs.
        targets: (k,), the token after each of these positions.
        mask: (b · w, n), True on real tokens.
        tokens: Number of real tokens.
    """

    images: Tensor
    inputs: Tensor
    positions: Tensor
    targets: Tensor
    mask: Tensor
    tokens: int

    @property
    def counts(self) -> dict[str, float]:
        return {"words": float(len(self.targets)), "doubly_stochastic": float(len(self.inputs))}


class CaptionObjective:
    """Training objective of a captioner.

    Args:
        images: Training images, (n, height, width, 3), or features.
        captions: Token ids of the captions of each image, each ending with [EOS].
        valid_images: Validation images.
        valid_captions: Their captions.
        batch_size: Images in a batch.
        captions_per_image: Captions of an image in a batch.
        seed: Random seed.
        label_smoothing: Label smoothing.
        doubly_stochastic: Weight of the doubly stochastic attention term.
        augment: Augmentation of the images.
        word_dropout: Fraction of the input words that are replaced by [UNK], so that the decoder relies on the image
            (Bowman et al. 2016).
        blank: Whether images are hidden, to measure what can be said without looking.
        side_words: Ids of words such as "left". An image with such a caption is not flipped.
        evaluate_fn: Returns additional metrics such as BLEU, which then selects the best checkpoint.
    """

    def __init__(
        self,
        images: np.ndarray,
        captions: Sequence[Sequence[Sequence[int]]],
        valid_images: np.ndarray,
        valid_captions: Sequence[Sequence[Sequence[int]]],
        *,
        batch_size: int,
        captions_per_image: int,
        seed: int,
        label_smoothing: float = 0.1,
        doubly_stochastic: float = 0.0,
        augment: AugmentSettings = AugmentSettings(),  # noqa: B008 - frozen
        word_dropout: float = 0.0,
        blank: bool = False,
        side_words: Collection[int] = (),
        evaluate_fn: Callable[[nn.Module], Mapping[str, float]] | None = None,
    ):
        self.images, self.captions, self.batch_size, self.seed = images, captions, batch_size, seed
        self.valid_images, self.valid_captions = valid_images, valid_captions
        self.captions_per_image = min(captions_per_image, max(map(len, captions)))
        self.label_smoothing, self.doubly_stochastic = label_smoothing, doubly_stochastic
        self.augment, self.word_dropout, self.blank = augment, word_dropout, blank
        self.side_words, self.evaluate_fn = frozenset(side_words), evaluate_fn
        self.monitor = "loss" if evaluate_fn is None else "bleu"
        self.mode: Literal["max", "min"] = "min" if evaluate_fn is None else "max"

    def plan(self, epoch: int) -> list[np.ndarray]:
        permutation = np.random.default_rng([self.seed, epoch]).permutation(len(self.images))
        return np.split(permutation, list(range(self.batch_size, len(permutation), self.batch_size)))

    def batch(self, indices: np.ndarray, epoch: int) -> CaptionBatch:
        seeds = [self.seed, epoch, *indices[:2].tolist(), len(indices)]
        rng = np.random.default_rng(seeds)
        rows = [self.captions[i][j] for i in indices for j in self._choose_captions(rng, len(self.captions[i]))]
        images = self.images[np.sort(indices)][np.argsort(np.argsort(indices))]  # the file is read in order
        images = augment_images(images, self.augment, seeds, self._mentions_side(rows))
        batch = collate(gray_image(images) if self.blank else images, rows)
        return replace(batch, inputs=drop_words(batch.inputs, self.word_dropout, rng)) if self.word_dropout else batch

    def _mentions_side(self, rows: Sequence[Sequence[int]]) -> np.ndarray | None:
        """Return whether a caption of each image contains a side word."""
        if not self.side_words:
            return None
        has_side_word = np.array([not self.side_words.isdisjoint(row) for row in rows])
        return has_side_word.reshape(-1, self.captions_per_image).max(1)

    def _choose_captions(self, rng: np.random.Generator, count: int) -> list[int]:
        """Choose captions of an image at random; each of the `count` captions is used before one is repeated."""
        permutation = rng.permutation(count)
        return [int(permutation[i % count]) for i in range(self.captions_per_image)]

    def loss(self, model: nn.Module, batch: CaptionBatch) -> Mapping[str, LossTerm]:
        if not self.doubly_stochastic:
            return {"words": self._word_loss(model, batch)}
        with capture_word_maps(model) as captured:
            words = self._word_loss(model, batch)
        total = (stack_word_maps(captured, len(batch.inputs)) * batch.mask[..., None]).sum(1)
        return {"words": words, "doubly_stochastic": LossTerm(((1 - total) ** 2).sum(), self.doubly_stochastic)}

    def _word_loss(self, model: nn.Module, batch: CaptionBatch) -> LossTerm:
        logits = model(batch.images, batch.inputs, logits_at=batch.positions)
        return LossTerm(F.cross_entropy(logits, batch.targets, reduction="sum", label_smoothing=self.label_smoothing))

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        metrics = self.evaluate_fn(model) if self.evaluate_fn else {}
        options = {"blank": self.blank, "batch_size": self.batch_size}
        return {**metrics, **measure_loss(model, self.valid_images, self.valid_captions, **options)}


def drop_words(inputs: Tensor, fraction: float, rng: np.random.Generator) -> Tensor:
    """Replace words by [UNK] at random, except [BOS]."""
    is_dropped = torch.from_numpy(rng.random(tuple(inputs.shape)) < fraction)
    return torch.where(is_dropped & (inputs != BOS), UNK, inputs)


def gray_image(images: Tensor) -> Tensor:
    """Return one gray image, which replaces all images of a batch."""
    return torch.full_like(images[:1], GRAY)


def collate(images: Tensor, rows: Sequence[Sequence[int]]) -> CaptionBatch:
    """Build a batch of images and their captions, the same number for each image, in the order of the images."""
    ids, mask = batches.pad_rows(rows)
    inputs = np.concatenate((np.full((len(ids), 1), BOS), ids[:, :-1]), 1)
    positions = np.flatnonzero(mask)
    return CaptionBatch(
        images,
        torch.from_numpy(np.where(mask, inputs, 0)),
        torch.from_numpy(positions),
        torch.from_numpy(ids.reshape(-1)[positions]),
        torch.from_numpy(mask),
        int(mask.sum()),
    )


@torch.no_grad()
def measure_loss(
    model: nn.Module,
    images: np.ndarray,
    captions: Sequence[Sequence[Sequence[int]]],
    *,
    blank: bool = False,
    batch_size: int = 64,
) -> dict[str, float]:
    """Return the loss per word (nats), perplexity and next-word accuracy on the true captions."""
    device, nats, correct, count = next(model.parameters()).device, 0.0, 0, 0
    caption_counts = np.array([len(c) for c in captions])
    for caption_count in np.unique(caption_counts):  # a batch needs the same number of captions for each image
        indices = np.flatnonzero(caption_counts == caption_count)
        for part in np.split(indices, list(range(batch_size, len(indices), batch_size))):
            part_images = torch.from_numpy(np.array(images[part]))
            rows = [row for i in part for row in captions[i]]
            batch = collate(gray_image(part_images) if blank else part_images, rows)
            targets = batch.targets.to(device)
            inputs = (batch.images.to(device), batch.inputs.to(device))
            logits = model(*inputs, logits_at=batch.positions.to(device)).float()
            nats += float(F.cross_entropy(logits, targets, reduction="sum"))
            correct += int((logits.argmax(-1) == targets).sum())
            count += len(targets)
    return {"loss": nats / count, "perplexity": math.exp(min(nats / count, 700.0)), "accuracy": correct / count}


# Attention maps of words over the image


@contextmanager
def capture_word_maps(model: nn.Module) -> Iterator[list[tuple[str, Tensor]]]:
    """Collect, with gradients, each attention of words to a grid: layer name and weights (b, h, q, k)."""
    captured: list[tuple[str, Tensor]] = []

    def build_hook(layer: str) -> Any:
        def hook(_: nn.Module, args: tuple, kwargs: dict, output: Tensor) -> None:
            scores, mask = args[0], args[2] if len(args) > 2 else kwargs.get("mask")
            if isinstance(scores.qk_positions.k_pos, Grid) and not isinstance(scores.qk_positions.q_pos, Grid):
                captured.append((layer, scores.weights(mask)))

        return hook

    handles = [
        module.register_forward_hook(build_hook(layer), with_kwargs=True)
        for layer, module in find_attention_layers(model).items()
    ]
    try:
        yield captured
    finally:
        for handle in handles:
            handle.remove()


def stack_word_maps(captured: Sequence[tuple[str, Tensor]], rows: int) -> Tensor:
    """Return one map per word, (rows, n, cells), the mean over layers and heads.

    A recurrent decoder calls its attention once per step; these calls are stacked.
    """
    maps = []
    for layer in dict.fromkeys(layer for layer, _ in captured):
        calls = [weights.mean(1) for name, weights in captured if name == layer]
        if len(calls) == 1 and len(calls[0]) == rows:
            maps.append(calls[0])
        else:  # (b, w, cells) per step
            maps.append(torch.stack([call.reshape(rows, -1) for call in calls], 1))
    return torch.stack(maps).mean(0)


@torch.no_grad()
def compute_word_maps(model: nn.Module, images: Tensor, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Return the attention map of each word of one caption per image, (words, rows, columns); each sums to one.

    The map of word t was computed before word t was chosen, and is part of the state from which it was chosen.
    """
    batch = collate(images, rows)
    was_training = model.training
    model.eval()
    try:
        with capture_word_maps(model) as captured:
            model(batch.images, batch.inputs)
            grid = model.encode(batch.images[:1]).shape[1:3]  # type: ignore[operator]
    finally:
        model.train(was_training)
    maps = stack_word_maps(captured, len(rows)).unflatten(-1, grid).numpy()
    return [maps[i, : len(row)] for i, row in enumerate(rows)]


def attention_in_box(attention: np.ndarray, box: tuple[float, float, float, float]) -> float:
    """Return the attention within a box; partially covered cells count partially.

    Args:
        attention: Attention map, (rows, columns).
        box: left, top, right and bottom, as fractions of the image.
    """
    height, width = attention.shape
    left, top, right, bottom = box
    column_coverage = _cell_coverage(left * width, right * width, width)
    row_coverage = _cell_coverage(top * height, bottom * height, height)
    return float(row_coverage @ attention @ column_coverage)


def _cell_coverage(start: float, end: float, count: int) -> np.ndarray:
    cells = np.arange(count)
    return np.clip(np.minimum(end, cells + 1) - np.maximum(start, cells), 0, 1)
