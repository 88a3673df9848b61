"""Look into a model of two sides: which words of the source each word of the translation regards, and whether hiding
them moves its log-probability.

The translation is given to the model once more, whole, so that all of its words are asked about in one pass; the
source is what is hidden. Row t of the attention to the source is made while the word after place t is to be said
(aligning.py); a word of several tokens has the mean of their rows and the sum of their log-probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.explain.subject import Picture, Subject, must_attend, padded
from regard.inspect import AttentionMap, find_attention_layers


@dataclass(frozen=True)
class Side:
    """A text with its ids and tokens (as the page has them, from 0 on)."""

    text: str
    ids: list[int]
    tokens: list[dict[str, Any]]


class Pair(Subject):
    """`begin` is what stands before a target, and `first` its name; both sides include their end, if they have one."""

    said = "log p"
    speaks = "what the words of the translation regard, each asked by itself"

    def __init__(
        self,
        net: nn.Module,
        source: Side,
        target: Side,
        *,
        begin: int,
        first: str,
        empty: int,
        name: str,
        folder: str,
    ):
        must_attend(net, name)
        self.before = [first, *(token["text"] for token in target.tokens[:-1])]
        self.net, self.source, self.target, self.begin, self.empty = net, source, target, begin, empty
        self.model_name, self.folder = name, folder
        shift, m = len(source.text) + 1, len(source.ids)
        after = 1 + max((t["word"] for t in source.tokens if t["word"] is not None), default=-1)
        said = [{**t, "start": t["start"] + shift, "end": t["end"] + shift, "fixed": True} for t in target.tokens]
        said = [{**t, "word": None if t["word"] is None else t["word"] + after} for t in said]
        self.text, self.tokens, self.m = f"{source.text}\n{target.text}", [*source.tokens, *said], m
        groups: dict[int, list[int]] = {}
        for place, token in enumerate(target.tokens):
            if not token["special"]:
                groups.setdefault(int(token["word"] or 0), []).append(place)
        self.groups = list(groups.values())
        spans = [[target.tokens[i] for i in group] for group in self.groups]
        self.labels = ["".join(target.text[t["start"] : t["end"]] for t in span).strip() or "␣" for span in spans]

    @property
    def title(self) -> str:
        return self.source.text

    @property
    def ids(self) -> Tensor:
        return torch.tensor([*self.source.ids, *self.target.ids])

    def answers(self, rows: Sequence[np.ndarray]) -> Tensor:
        """Of the target all is read always."""
        kept = [torch.from_numpy(row[row < self.m]) for row in rows]
        source, mask = padded([self.ids[row] for row in kept], self.empty)
        return self._asked(source, mask, self.ids[self.m :].expand(len(rows), -1))

    def score(self, ids: Tensor) -> Tensor:
        return self._asked(ids[:, : self.m], torch.ones(len(ids), self.m, dtype=torch.bool), ids[:, self.m :])

    def _asked(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        begin = torch.full((len(source), 1), self.begin)
        logits = self.net(source, torch.cat((begin, target[:, :-1]), 1), source_mask=mask).float()
        words = torch.tensor(self.target.ids).expand(len(source), -1)
        said = logits.log_softmax(-1).gather(-1, words[..., None])[..., 0]
        return torch.stack([said[:, group].sum(1) for group in self.groups] or [said[:, 0]], 1)[:, : len(self.groups)]

    def chances(self) -> dict[str, float]:
        return {}

    def sizes(self) -> dict[str, int]:
        return {}

    def parts(self) -> dict[str, Any]:
        total = len(self.tokens)
        said = self.whole()
        shown = [
            {"tokens": [self.m + place for place in group], "log_p": float(p)}
            for group, p in zip(self.groups, said, strict=True)
        ]
        axes = {"source": [0, self.m], "target": [self.m, total], "before": {"names": self.before}}
        return {"sentences": [[0, self.m], [self.m, total]], "axes": axes, "questions": shown}

    def asking(self, rows: str, count: int) -> list[list[int]]:
        return self.groups if rows == "target" else super().asking(rows, count)

    def spread(self, columns: str, weights: np.ndarray) -> np.ndarray | None:
        if columns != "source":
            return None
        whole = np.zeros((*weights.shape[:-1], len(self.tokens)))
        whole[..., : self.m] = weights
        return whole

    def named(self, found: AttentionMap) -> AttentionMap:
        """By its name a map is of the source, of the target, or from one to the other. Row t of the decoder's own
        attention says word t, and has those before it to look at."""
        crossing = found.site in self.crossing
        inside = not crossing and found.site.startswith("decoder")
        rows, columns = ("target", "source") if crossing else ("target", "before") if inside else ("source", "source")
        return replace(found, rows=rows, columns=columns)

    @property
    def crossing(self) -> list[str]:
        """Where the source is attended to, the first layer first."""
        names = list(find_attention_layers(self.net))
        found = [name for name in names if name.endswith("cross_attention.attend")]
        return found or [name for name in names if name.startswith("decoder.")]

    @property
    def speaking(self) -> str:
        """Of a Transformer's layers the last but one aligns best as a rule (Garg et al. 2019, section 3.2)."""
        return self.crossing[max(0, len(self.crossing) - 2)]

    @property
    def first(self) -> str:
        return self.speaking

    def picture(self, seen: list[AttentionMap]) -> Picture | None:
        site = next((m for m in seen if m.site == self.speaking), None)
        if site is None or not self.groups:
            return None
        rows = site.weights.mean(0).double().numpy()  # (target, source)
        weights = np.zeros((len(self.groups), len(self.tokens)))
        for j, group in enumerate(self.groups):
            weights[j, : self.m] = rows[group].mean(0)
        return Picture(weights, f"what the words of the translation attend to in the mean, at {self.speaking}")
