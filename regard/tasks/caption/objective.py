"""Say what a picture shows: pictures in batches, each with some of its captions, which share what was seen.

    loss = Σ_t -log P(w_t | w_<t, picture)  + λ Σ_xy (1 - Σ_t α_t[x, y])²

Words are smoothed as in translation. The second term, of weight `doubly` (λ), makes attention over all words of a
caption come to about one at each place (Xu et al. 2015, 4.2.1, doubly stochastic attention); a term like any other.
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

GREY = 115
Scored = Callable[[nn.Module], Mapping[str, float]]


@dataclass(frozen=True)
class CaptionBatch:
    """pictures (b, height, width, 3); target (b · w, n) from [BOS] on, w captions for each; `places` are the real
    places, counted through all rows, `words` (k,) what stands after each, and real (b · w, n) says the same. One grey
    picture may stand for all."""

    pictures: Tensor
    target: Tensor
    places: Tensor
    words: Tensor
    real: Tensor
    tokens: int

    @property
    def counts(self) -> dict[str, float]:
        return {"words": float(len(self.words)), "doubly": float(len(self.target))}


class Caption:
    """The task that the loop trains on. `captions` are ids that end with [EOS], a list for each picture, of which
    `several` are learnt at a time; `hide` is the share of words that the decoder is not shown (Bowman et al. 2016),
    so that it looks rather than goes by what it said; `blank` shows grey pictures: what can be said without looking.
    A picture of which one of the words `sides` is said is not mirrored."""

    def __init__(
        self,
        pictures: np.ndarray,
        captions: Sequence[Sequence[Sequence[int]]],
        valid_pictures: np.ndarray,
        valid_captions: Sequence[Sequence[Sequence[int]]],
        *,
        batch: int,
        several: int,
        seed: int,
        label_smoothing: float = 0.1,
        doubly: float = 0.0,
        augment: AugmentSettings = AugmentSettings(),  # noqa: B008 - frozen
        hide: float = 0.0,
        blank: bool = False,
        sides: Collection[int] = (),
        scored: Scored | None = None,
    ):
        self.pictures, self.captions, self.size = pictures, captions, batch
        self.valid_pictures, self.valid_captions = valid_pictures, valid_captions
        self.several = min(several, max(map(len, captions)))
        self.seed, self.label_smoothing, self.doubly, self.augment, self.blank = seed, label_smoothing, doubly, augment, blank
        self.hide, self.sides, self.scored = hide, frozenset(sides), scored
        self.monitor = "loss" if scored is None else "bleu"
        self.mode: Literal["max", "min"] = "min" if scored is None else "max"

    def plan(self, epoch: int) -> list[np.ndarray]:
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.pictures))
        cuts = range(self.size, len(order), self.size)
        return np.split(order, list(cuts))

    def batch(self, indices: np.ndarray, epoch: int) -> CaptionBatch:
        numbers = [self.seed, epoch, *indices[:2].tolist(), len(indices)]
        random = np.random.default_rng(numbers)
        rows = [self.captions[i][j] for i in indices for j in self._chosen(random, len(self.captions[i]))]
        order = np.sort(indices)  # a file is read forwards
        whole = self.pictures[order][np.argsort(np.argsort(indices))]
        seen = augment_images(whole, self.augment, numbers, self._sided(rows))
        made = collate(blanked(seen) if self.blank else seen, rows)
        return replace(made, target=hidden(made.target, self.hide, random)) if self.hide else made

    def _sided(self, rows: Sequence[Sequence[int]]) -> np.ndarray | None:
        """Of each picture, whether one of its captions says left or right."""
        if not self.sides:
            return None
        said = np.array([not self.sides.isdisjoint(row) for row in rows])
        return said.reshape(-1, self.several).max(1)

    def _chosen(self, random: np.random.Generator, count: int) -> list[int]:
        """Which captions of a picture that has so many: all alike, and all before one comes again."""
        order = random.permutation(count)
        return [int(order[i % count]) for i in range(self.several)]

    def loss(self, model: nn.Module, batch: CaptionBatch) -> Mapping[str, LossTerm]:
        if not self.doubly:
            return {"words": self._words(model, batch)}
        with kept_maps(model) as kept:
            words = self._words(model, batch)
        spent = (stacked(kept, len(batch.target)) * batch.real[..., None]).sum(1)
        return {"words": words, "doubly": LossTerm(((1 - spent) ** 2).sum(), self.doubly)}

    def _words(self, model: nn.Module, batch: CaptionBatch) -> LossTerm:
        logits = model(batch.pictures, batch.target, logits_at=batch.places)
        return LossTerm(F.cross_entropy(logits, batch.words, reduction="sum", label_smoothing=self.label_smoothing))

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        found = measure(model, self.valid_pictures, self.valid_captions, blank=self.blank, batch=self.size)
        return {**(self.scored(model) if self.scored else {}), **found}


def hidden(target: Tensor, share: float, random: np.random.Generator) -> Tensor:
    """Words become [UNK] by chance, but not the beginning."""
    chosen = torch.from_numpy(random.random(tuple(target.shape)) < share)
    return torch.where(chosen & (target != BOS), UNK, target)


def blanked(pictures: Tensor) -> Tensor:
    """One grey picture, which all captions are said of."""
    return torch.full_like(pictures[:1], GREY)


def collate(pictures: Tensor, rows: Sequence[Sequence[int]]) -> CaptionBatch:
    """Pictures and the same number of captions for each, one picture's after the other's."""
    words, mask = batches.pad_rows(rows)
    target = np.concatenate((np.full((len(words), 1), BOS), words[:, :-1]), 1)
    places = np.flatnonzero(mask)
    return CaptionBatch(
        pictures,
        torch.from_numpy(np.where(mask, target, 0)),
        torch.from_numpy(places),
        torch.from_numpy(words.reshape(-1)[places]),
        torch.from_numpy(mask),
        int(mask.sum()),
    )


@torch.no_grad()
def measure(
    model: nn.Module,
    pictures: np.ndarray,
    captions: Sequence[Sequence[Sequence[int]]],
    *,
    blank: bool = False,
    batch: int = 64,
) -> dict[str, float]:
    """Nats a word of the true captions, perplexity, and the share of words that are the likeliest. Pictures with the
    same number of captions are measured together."""
    device, nats, right, count = next(model.parameters()).device, 0.0, 0, 0
    amounts = np.array([len(c) for c in captions])
    for amount in np.unique(amounts):
        same = np.flatnonzero(amounts == amount)
        for part in np.split(same, list(range(batch, len(same), batch))):
            seen = torch.from_numpy(np.array(pictures[part]))
            made = collate(blanked(seen) if blank else seen, [row for i in part for row in captions[i]])
            wanted = made.words.to(device)
            logits = model(made.pictures.to(device), made.target.to(device), logits_at=made.places.to(device)).float()
            nats += float(F.cross_entropy(logits, wanted, reduction="sum"))
            right += int((logits.argmax(-1) == wanted).sum())
            count += len(wanted)
    return {"loss": nats / count, "perplexity": math.exp(min(nats / count, 700.0)), "accuracy": right / count}


# Maps of words over the picture


@contextmanager
def kept_maps(model: nn.Module) -> Iterator[list[tuple[str, Tensor]]]:
    """While entered, each attention of words to a grid is kept with its gradient: site and weights (b, h, q, k)."""
    kept: list[tuple[str, Tensor]] = []

    def listen(site: str) -> Any:
        def hook(_: nn.Module, args: tuple, kwargs: dict, output: Tensor) -> None:
            scores, mask = args[0], args[2] if len(args) > 2 else kwargs.get("mask")
            if isinstance(scores.qk_positions.k_pos, Grid) and not isinstance(scores.qk_positions.q_pos, Grid):
                kept.append((site, scores.weights(mask)))

        return hook

    handles = [
        module.register_forward_hook(listen(site), with_kwargs=True)
        for site, module in find_attention_layers(model).items()
    ]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def stacked(kept: Sequence[tuple[str, Tensor]], rows: int) -> Tensor:
    """What was kept as one map for each word, (rows, n, cells): the steps of a recurrent decoder one after the other,
    layers and heads in the mean."""
    sites = list(dict.fromkeys(site for site, _ in kept))
    found = []
    for site in sites:
        calls = [weights.mean(1) for name, weights in kept if name == site]
        if len(calls) == 1 and len(calls[0]) == rows:
            found.append(calls[0])
        else:  # (b, w, cells) a step
            found.append(torch.stack([call.reshape(rows, -1) for call in calls], 1))
    return torch.stack(found).mean(0)


@torch.no_grad()
def word_maps(model: nn.Module, pictures: Tensor, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Where each word of one caption of each picture was looked for: (words, rows, columns), each summing to one. Row t
    was made before the word t was chosen, and entered the state that it was chosen from."""
    made = collate(pictures, rows)
    was = model.training
    model.eval()
    try:
        with kept_maps(model) as kept:
            model(made.pictures, made.target)
            grid = model.encode(made.pictures[:1]).shape[1:3]  # type: ignore[operator]
    finally:
        model.train(was)
    maps = stacked(kept, len(rows)).unflatten(-1, grid).numpy()
    return [maps[i, : len(row)] for i, row in enumerate(rows)]


def share_on(map_: np.ndarray, box: tuple[float, float, float, float]) -> float:
    """How much of a map (rows, columns) falls on a box (left, top, right, bottom: shares of the picture); a cell that
    it covers in part counts in part."""
    height, width = map_.shape
    left, top, right, bottom = box
    across = _covered(left * width, right * width, width)
    down = _covered(top * height, bottom * height, height)
    return float(down @ map_ @ across)


def _covered(first: float, last: float, count: int) -> np.ndarray:
    cells = np.arange(count)
    return np.clip(np.minimum(last, cells + 1) - np.maximum(first, cells), 0, 1)
