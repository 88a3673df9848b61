"""From a subject to the data of its page: maps, picture, prediction, faithfulness, heads, and what changes do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from regard import viewer
from regard.inspect import (
    AttentionMap,
    attends,
    faithfulness_of_each,
    head_count,
    importance,
    integrated_gradients,
    rollout,
    stacked,
)
from regard.runs.changes import Change, changed, parse
from regard.runs.subject import MOST_CELLS, Subject

MOST_HEADS = 400  # that are ablated one by one
GOOD = 0.95  # better than chance: better than this share of the draws
EFFORT = 4e12  # floating-point operations that measuring may take, about


def seen_by(
    subject: Subject,
    *,
    faithful: bool = True,
    changes: Sequence[Change | str] = (),
    heads: bool = True,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """The data of a look. Changes may be given as they are written (regard.runs.changes), but for those that need
    another run."""
    found, recording = subject.seen()
    shown = [m for m in found if m.weights.shape[1] * m.weights.shape[2] <= MOST_CELLS]
    chances = subject.chances()
    text, title = subject.text, subject.title
    data: dict[str, Any] = {
        "title": title if len(title) <= 60 else title[:57] + "...",
        "model": subject.model_name,
        "run": subject.folder,
        "text": text,
        "tokens": [{k: v for k, v in t.items() if k != "fixed"} for t in subject.tokens],
        "maps": [_stored(m) for m in [*shown, *through(shown)]],
        "notes": list(notes),
        "asked": f"{subject.said}({subject.labels[0]})" if len(subject.labels) == 1 else f"{subject.said} of a word",
        **subject.parts(),
    }
    if chances:
        label = subject.labels[0] if len(subject.labels) == 1 and subject.labels[0] in chances else next(iter(chances))
        data["prediction"] = {"label": label, "probabilities": chances}
    if len(shown) < len(recording.sites) + len(recording.passed):
        data["notes"].append(f"Maps of more than {MOST_CELLS:,} cells are left out.")
    if subject.labels:
        before = subject.whole()
        if changes:
            given = [parse(change) if isinstance(change, str) else change for change in changes]
            data["changes"] = [made.as_dict() for made in changed(subject, given, before)]
        if heads:
            data["heads"] = _heads(subject)
    picture = subject.picture(found)
    if picture is None or not len(picture.weights):
        return data
    data |= {"weights": picture.weights.mean(0).tolist(), "weights_how": picture.how, **picture.more}
    measured, others = _measured(subject, picture.weights) if faithful else ([], {})
    if len(subject.labels) == 1 and "questions" not in data:
        data["faithfulness"] = measured[0] if measured else None
        data["instead"] = others
    else:
        data["questions"] = [
            {
                **(data.get("questions") or [{}] * len(subject.labels))[j],
                "label": label,
                "weights": [float(f"{w:.6g}") for w in picture.weights[j]],  # many rows: the page stays small
                "faithfulness": measured[j] if measured else None,
            }
            for j, label in enumerate(subject.labels)
        ]
        data["faithfulness"] = _together([q["faithfulness"] for q in data["questions"]]) if measured else None
    return data


def through(found: Sequence[AttentionMap]) -> list[AttentionMap]:
    """Rollout along each axis that regards itself in several layers."""
    made = []
    for axis in dict.fromkeys(m.rows for m in found if m.rows == m.columns):
        layers = stacked(found, axis)
        if len(layers) > 1 and len({m.weights.shape[1:] for m in layers}) == 1:
            name = "rollout" if axis == "tokens" else f"rollout of the {axis}"
            made.append(AttentionMap(name, rollout([m.weights.float() for m in layers]), axis, axis))
    return made


def _stored(found: AttentionMap) -> dict[str, Any]:
    kept = {**viewer.quantise(found.weights.float().numpy()), "site": found.site}
    made = {"rollout": True} if found.site.startswith("rollout") else {}
    return {**kept, "rows": found.rows, "columns": found.columns, **made}


def _measured(subject: Subject, weights: np.ndarray) -> tuple[list[dict[str, Any]], dict[str, list[float]]]:
    """Faithfulness of each question, with the gradients where the model can be asked for them; and what gradients and
    leaving out say of the first question, as shares of the text."""
    n, room = max(1, len(subject.tokens)), max(40, int(EFFORT / _work(subject)))
    draws = min(40, max(20, room // 6))
    rows = max(1, min(20, subject.batch_tokens // (4 * n)))
    slopes = None
    try:
        found = integrated_gradients(subject.net, subject.ids, subject.score, rows=rows, steps=20 if room > 200 else 10)
        slopes = None if found is None else list(found.reshape(len(subject.labels), -1).double().numpy())
    except NotImplementedError:  # a kernel without a backward pass
        slopes = None
    how = {"said": subject.said, "draws": draws, "most": min(256, max(20, room // 2))}
    made = faithfulness_of_each(subject.predict, list(weights), subject.words, subject.labels, gradients=slopes, **how)
    others = {"gradients": None if slopes is None else np.abs(slopes[0]), "leaving words out": made[0].moved}
    shares = {
        name: [float(f"{w:.6g}") for w in values / values.sum()]
        for name, values in others.items()
        if values is not None and values.sum() > 0
    }
    return [one.as_dict() for one in made], shares


def _work(subject: Subject) -> float:
    """Operations of one pass over the text, about: two for each weight and token."""
    parameters = sum(p.numel() for p in subject.net.parameters())
    tables = sum(m.weight.numel() for m in subject.net.modules() if isinstance(m, torch.nn.Embedding))
    return 2.0 * max(1, len(subject.tokens)) * max(parameters - tables, 1) + 1e6


def _together(each: Sequence[dict[str, Any]]) -> dict[str, Any]:
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
            f"least one measure, which by luck alone about {luck:.0f} would be. Choose a word to see its own figures."
        )
    return {"sentence": sentence, "rows": rows}


def _heads(subject: Subject) -> list[dict[str, Any]]:
    """What the answers lose without each head, on this text alone."""
    counts = [head_count(subject.net, site) or 0 for site in attends(subject.net)]
    if sum(counts) > MOST_HEADS or (sum(counts) + 2 * len(counts)) * _work(subject) > EFFORT:
        return []

    def measure() -> dict[str, float]:
        return {"said": float(subject.whole().mean())}

    _, rows = importance(subject.net, measure)
    return [{"site": r.site, "head": r.head, "how": r.how, "change": r.change["said"]} for r in rows]
