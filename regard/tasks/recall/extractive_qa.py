"""Point at the answer: pages of like length, and the chance of the answer wherever it stands.

    loss = -log Σ over its places (s, e) of start[s] · end[e]

Words are hidden by chance in training ([UNK] for `drop` of them; of those that name something, twice as often), so that
the reader learns what stands round a place and not the places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.data import counter_rng
from regard.data.batches import pad_rows, plan_batches
from regard.data.qa_passages import MAX_ANSWER_WORDS, Passage
from regard.data.tokenizer import UNK
from regard.training.objective import LossTerm

_HIDE = 41


@dataclass(frozen=True)
class PageBatch:
    """ids, shapes, own, mask and allowed (b, n); spans (k, 3): row, first and last word of each place of an answer."""

    ids: Tensor
    shapes: Tensor
    own: Tensor
    mask: Tensor
    allowed: Tensor
    spans: Tensor
    tokens: int

    @property
    def counts(self) -> dict[str, float]:
        return {"answers": float(len(self.ids))}


class Pointing:
    """The task that the loop trains on. Validation pages hold their answer as text, which is to be said exactly."""

    monitor = "exact"
    mode: Literal["max", "min"] = "max"

    def __init__(
        self,
        train: Sequence[Passage],
        valid: Sequence[Passage],
        answers: Sequence[str],
        *,
        batch_tokens: int,
        seed: int,
        drop: float = 0.2,
    ):
        self.train, self.valid, self.answers = train, valid, answers
        self.batch_tokens, self.seed, self.drop = batch_tokens, seed, drop

    def plan(self, epoch: int) -> list[np.ndarray]:
        return plan_batches([len(page) for page in self.train], self.batch_tokens, seed=self.seed, epoch=epoch)

    def batch(self, indices: np.ndarray, epoch: int) -> PageBatch:
        made = collate([self.train[i] for i in indices])
        drawn = counter_rng.uniform(self.seed, epoch, _HIDE, indices, made.ids.shape[1])
        named = (made.shapes.numpy() == 2) | (made.shapes.numpy() == 3)
        hidden = (drawn < np.where(named, 2 * self.drop, self.drop)) & (made.ids.numpy() > SPECIALS)
        made.ids[torch.from_numpy(hidden)] = UNK
        return made

    def loss(self, model: nn.Module, batch: PageBatch) -> Mapping[str, LossTerm]:
        row, first, last = batch.spans.unbind(1)
        weights = pointed(model, batch)
        each = weights[row, 0, first] * weights[row, 1, last]
        whole = torch.zeros(len(batch.ids), dtype=each.dtype, device=each.device).index_add(0, row, each)
        return {"answers": LossTerm(-whole.clamp_min(1e-9).log().sum())}

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> Mapping[str, float]:
        found = read(model, self.valid)
        right = [f.text == answer for f, answer in zip(found, self.answers, strict=True)]
        return {"exact": float(np.mean(right)), "none": float(np.mean([f.none > f.chance for f in found]))}


SPECIALS = 5


@dataclass(frozen=True)
class Pointed:
    """The likeliest span and its chance; `weights` on each word of the sentence, the mean of start and end; `none` the
    chance that the sentence does not say."""

    text: str
    chance: float
    first: int
    last: int
    weights: list[float]
    none: float


def pointed(model: nn.Module, batch: PageBatch) -> Tensor:
    return model(batch.ids, batch.shapes, batch.own, batch.mask, batch.allowed)


@torch.no_grad()
def read(
    model: nn.Module, pages: Sequence[Passage], *, batch_tokens: int = 8192, most: int = MAX_ANSWER_WORDS
) -> list[Pointed]:
    """What the model points at on each page: the likeliest span of at most `most` words."""
    device = next(model.parameters()).device
    found: dict[int, Pointed] = {}
    for indices in plan_batches([len(page) for page in pages], batch_tokens, seed=0, epoch=0, shuffle=False):
        made = collate([pages[i] for i in indices])
        moved: dict[str, Any] = {k: v.to(device) for k, v in vars(made).items() if isinstance(v, Tensor)}
        batch = PageBatch(**moved, tokens=made.tokens)
        weights = pointed(model, batch)
        start, end = weights[:, 0], weights[:, 1]
        n = start.shape[1]
        both = start[:, :, None] * end[:, None, :]
        gap = torch.arange(n, device=device)[None, :] - torch.arange(n, device=device)[:, None]
        fits = (gap >= 0) & (gap < most)
        fits[0] = False  # [BOS] is no word
        both = both * fits
        best = both.flatten(1).argmax(1)
        for row, i in enumerate(indices.tolist()):
            page, (first, last) = pages[i], divmod(int(best[row]), n)
            shown = weights[row].mean(0)[page.start : len(page)].tolist()
            sure, none = float(both[row, first, last]), float(start[row, 0] * end[row, 0])
            found[i] = Pointed(page.text(first, last), sure, first, last, shown, none)
    return [found[i] for i in range(len(pages))]


def collate(pages: Sequence[Passage]) -> PageBatch:
    ids, mask = pad_rows([page.ids for page in pages])
    shapes, own = pad_rows([page.shapes for page in pages])[0], pad_rows([page.in_name for page in pages])[0]
    place = np.arange(ids.shape[1])
    allowed = mask & ((place >= np.array([page.start for page in pages])[:, None]) | (place == 0))
    spans = [(row, s, e) for row, page in enumerate(pages) for s, e in page.spans]
    tensors = map(torch.from_numpy, (ids, shapes, own, mask, allowed, np.array(spans, np.int64)))
    return PageBatch(*tensors, tokens=int(mask.sum()))
