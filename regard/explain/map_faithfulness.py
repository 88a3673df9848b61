"""How far each picture of a page may be believed: the shaded text, every head, the mean and the largest of all heads,
attention through the layers, and each hop. All share the draws and the words left out, so that many pictures cost
little more than one; what a picture has of its own is the two texts with and without the words it points at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard.explain.subject import Subject
from regard.inspect import AttentionMap, faithfulness_of_maps

GOOD = 0.95  # better than chance: better than this share of the draws
EFFORT = 4e12  # floating-point operations that measuring may take, about
MOST_PICTURES = 4000


@dataclass
class Judged:
    """`questions`: the picture of the text, for each question; `without`: what each question's answer is without the
    word of each token; `instead`: what gradients and leaving out say of the first question, as shares of the text;
    `sites`: for each map its heads, their mean and maximum; `hops`: each of them."""

    questions: list[dict[str, Any]]
    without: list[list[float | None]]
    instead: dict[str, list[float]]
    sites: list[dict[str, Any] | None]
    hops: list[dict[str, Any]]


@dataclass
class _Shown:
    """A picture: where it stands on the page, and its weights (questions, tokens)."""

    place: tuple[str, int, int]
    weights: np.ndarray
    found: list[dict[str, Any]] = field(default_factory=list)


def judged(subject: Subject, weights: np.ndarray, found: Sequence[AttentionMap], hops: Sequence[Any] = ()) -> Judged:
    """`weights` (questions, tokens) are those of the text; `found` the maps of the page."""
    total, room = len(subject.labels), max(40, int(EFFORT / work(subject)))
    n = max(1, len(subject.tokens))
    pictures = [_Shown(("text", 0, 0), weights)]
    pictures += [_Shown(("hop", 0, i), np.asarray(hop, float)[None]) for i, hop in enumerate(hops)]
    heads = [shown for i, one in enumerate(found) for shown in _pictures(subject, one, i)]
    pictures += sorted(heads, key=lambda shown: shown.place[0] == "single")  # heads last: there are most of them
    pictures = pictures[: max(1, MOST_PICTURES // max(1, total))]
    slopes = _slopes(subject, max(1, min(20, subject.batch_tokens // (4 * n))), 20 if room > 200 else 10)
    each = faithfulness_of_maps(
        subject.predict,
        [row for shown in pictures for row in shown.weights],
        subject.words,
        subject.labels,
        about=[j for shown in pictures for j in range(len(shown.weights))],
        erased=total + room // 4,
        gradients=slopes,
        said=subject.said,
        unit=subject.unit,
        draws=min(40, max(20, room // 6)),
        most=min(256, max(20, room // 2)),
    )
    at = 0
    for shown in pictures:
        shown.found = [_plain(one.as_dict()) for one in each[at : at + len(shown.weights)]]
        at += len(shown.weights)
    others = {"gradients": None if slopes is None else np.abs(slopes[0]), f"leaving {subject.unit}s out": each[0].moved}
    shares = {
        name: [_short(w) for w in values / values.sum()]
        for name, values in others.items()
        if values is not None and values.sum() > 0
    }
    bare = [np.full(n, np.nan) if one.without is None else one.without for one in each[:total]]
    return Judged(
        questions=[one.as_dict() for one in each[:total]],
        without=[[None if np.isnan(s) else _short(s) for s in row] for row in bare],
        instead=shares,
        sites=[_site(pictures, i) for i in range(len(found))],
        hops=[shown.found[0] for shown in pictures if shown.place[0] == "hop"],
    )


def together(each: Sequence[dict[str, Any]], more: str = "") -> dict[str, Any]:
    """Over all questions: the means, and how many were better than chance."""
    full = [one for one in each if one["rows"]]
    if len(full) < 2:
        return full[0] if full else each[0] if each else {"sentence": "Nothing was asked.", "rows": []}
    rows = []
    for name in dict.fromkeys(row["measure"] for one in full for row in one["rows"]):
        found = [row for one in full for row in one["rows"] if row["measure"] == name]
        means = {key: float(np.mean([row[key] for row in found])) for key in ("attention", "random", "uniform")}
        good = sum(row["better_than"] >= GOOD for row in found)
        explain = f"in the mean of {len(found)} words; better than chance for {good} of them"
        rows.append({"measure": name, **means, "better_than": good / len(found), "explain": explain})
    good = sum(any(row["better_than"] >= GOOD for row in one["rows"]) for one in full)
    faithful = sum("is a faithful explanation" in one["sentence"] for one in full)
    if not good:
        sentence = "For no word here is attention better than chance as an explanation."
    else:
        luck = len(full) * (1 - GOOD ** len(rows))
        sentence = (
            f"Of {len(full)} words attention explains {faithful} faithfully; for {good} it is better than chance by at "
            f"least one measure, which by luck alone about {luck:.0f} would be.{more}"
        )
    return {"sentence": sentence, "rows": rows}


def work(subject: Subject) -> float:
    """Operations of one pass over the text, about: two for each weight and token."""
    parameters = sum(p.numel() for p in subject.net.parameters())
    tables = sum(m.weight.numel() for m in subject.net.modules() if isinstance(m, torch.nn.Embedding))
    return 2.0 * max(1, len(subject.tokens)) * max(parameters - tables, 1) + 1e6


def _pictures(subject: Subject, found: AttentionMap, site: int) -> list[_Shown]:
    """The rows that answer each question, of every head and of all together; none where what is regarded cannot be
    taken away."""
    heads = found.weights.double().numpy()
    kinds = {"single": heads}
    if len(heads) > 1:
        kinds |= {"mean": heads.mean(0, keepdims=True), "max": heads.max(0, keepdims=True)}
    asked = subject.asking(found.rows, heads.shape[1])
    made = []
    for kind, weights in kinds.items():
        rows = np.stack([weights[:, row].mean(1) for row in asked], 1)  # (heads, questions, columns)
        whole = subject.spread(found.columns, rows)
        if whole is not None:
            made += [_Shown((kind, site, head), one) for head, one in enumerate(whole)]
    return made


def _site(pictures: Sequence[_Shown], site: int) -> dict[str, Any] | None:
    mine = [shown for shown in pictures if shown.place[0] not in ("text", "hop") and shown.place[1] == site]
    if not mine:
        return None
    by_kind: dict[str, Any] = {"single": [_plain(together(s.found)) for s in mine if s.place[0] == "single"]}
    return by_kind | {s.place[0]: _plain(together(s.found)) for s in mine if s.place[0] != "single"}


def _slopes(subject: Subject, rows: int, steps: int) -> list[np.ndarray] | None:
    """What the gradients say, where the model can be asked for them."""
    try:
        found = subject.slopes(rows=rows, steps=steps)
    except NotImplementedError:  # a kernel without a backward pass
        return None
    return None if found is None else list(found.reshape(len(subject.labels), -1).double().numpy())


def _plain(one: dict[str, Any]) -> dict[str, Any]:
    """Without what is the same for all, and as short as numbers may be: a page has hundreds."""
    keys = ("attention", "random", "uniform", "better_than")
    rows = [{"measure": row["measure"], **{key: _short(row[key]) for key in keys}} for row in one["rows"]]
    return {"sentence": one["sentence"], "rows": rows}


def _short(value: float) -> float:
    return float(f"{value:.5g}")
