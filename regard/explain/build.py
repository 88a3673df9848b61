"""From a subject to the data of its page: maps, picture, prediction, faithfulness, heads, and what changes do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from regard import pages
from regard.explain.interventions import Change, changed, parse
from regard.explain.map_faithfulness import EFFORT, judged, together, work
from regard.explain.subject import MOST_CELLS, Subject
from regard.inspect import AttentionMap, find_attention_layers, count_heads, head_importance, rollout, stacked
from regard.inspect.faithfulness import shortened
from regard.pages.word_layout import BREAK

MOST_HEADS = 400  # that are ablated one by one
MOST_NAMED = 6  # sites in a note


def seen_by(
    subject: Subject,
    *,
    faithful: bool = True,
    changes: Sequence[Change | str] = (),
    heads: bool = True,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """The data of a look. Changes may be given as they are written (regard.explain.interventions), but for those that need
    another run."""
    found, recording = subject.seen()
    shown = [m for m in found if m.weights.shape[1] * m.weights.shape[2] <= MOST_CELLS]
    left = [*recording.skipped, *(m.site for m in found if all(m is not one for one in shown))]
    shown += through(shown)
    chances = subject.chances()
    text, title = subject.text, re.sub(r"\s+", " ", BREAK.sub(" ", subject.title))
    data: dict[str, Any] = {
        "title": title if len(title) <= 60 else title[:57] + "...",
        "model": subject.model_name,
        "run": subject.folder,
        "text": text,
        "tokens": [{k: v for k, v in t.items() if k != "fixed"} for t in subject.tokens],
        "maps": [_stored(m) for m in shown],
        "notes": list(notes),
        "first": subject.first,
        "asked": f"{subject.said}({shortened(subject.labels[0])})"
        if len(subject.labels) == 1
        else f"{subject.said} of a word",
        **subject.parts(),
    }
    if chances:
        label = subject.labels[0] if len(subject.labels) == 1 and subject.labels[0] in chances else next(iter(chances))
        data["prediction"] = {"label": label, "probabilities": chances}
    if left:
        data["notes"].append(f"Maps of more than {MOST_CELLS:,} cells are left out: {_sites(left)}.")
    if subject.labels:
        before = subject.whole()
        data["answer"] = float(before[0]) if len(before) == 1 else None
        if changes:
            given = [parse(change) if isinstance(change, str) else change for change in changes]
            data["changes"] = [made.as_dict() for made in changed(subject, given, before)]
        if heads:
            data["heads"] = _heads(subject)
    picture = subject.picture(found)
    if picture is None or not len(picture.weights):
        return data
    data |= {"weights": picture.weights.mean(0).tolist(), "weights_how": picture.how, **picture.more}
    several = len(subject.labels) > 1 or "questions" in data
    asked = data.get("questions") or [{} for _ in subject.labels]
    if several:
        rows = [[float(f"{w:.6g}") for w in row] for row in picture.weights]  # many: the page stays small
        named = zip(asked, subject.labels, rows, strict=True)
        data["questions"] = [{**one, "label": name, "weights": row, "faithfulness": None} for one, name, row in named]
    if not faithful:
        return data
    hops = (data.get("hops") or {}).get("weights") or []
    found = judged(subject, picture.weights, shown, hops)
    data["judged_by"] = subject.speaks
    for stored, one in zip(data["maps"], found.sites, strict=True):
        stored |= {"judged": one}
    if hops:
        data["hops"]["faithfulness"] = found.hops
    if several:
        for question, one, bare in zip(data["questions"], found.questions, found.without, strict=True):
            question |= {"faithfulness": one, "without": bare}
        data["faithfulness"] = together(found.questions, " Choose a word to see its own figures.")
        return data
    return data | {"faithfulness": found.questions[0], "instead": found.instead, "without": found.without[0]}


def through(found: Sequence[AttentionMap]) -> list[AttentionMap]:
    """Rollout along each axis that regards itself in several layers, for each member of a committee."""
    made = []
    for member in dict.fromkeys(_member(m.site) for m in found):
        mine = [m for m in found if _member(m.site) == member]
        for axis in dict.fromkeys(m.rows for m in mine if m.rows == m.columns):
            layers = stacked(mine, axis)
            if len(layers) > 1 and len({m.weights.shape[1:] for m in layers}) == 1:
                name = "rollout" if axis == "tokens" else f"rollout of the {axis}"
                name = f"{name}, {member}" if member else name
                made.append(AttentionMap(name, rollout([m.weights.float() for m in layers]), axis, axis))
    return made


def _sites(names: Sequence[str]) -> str:
    """Names of sites in a row, the first few of many."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _member(site: str) -> str:
    """Of a committee: `members.0` of `members.0.layers.1.attend`."""
    found = re.match(r"members\.\d+(?=\.)", site)
    return found[0] if found else ""


def _stored(found: AttentionMap) -> dict[str, Any]:
    kept = {**pages.quantise(found.weights.float().numpy()), "site": found.site}
    made = {"rollout": True} if found.site.startswith("rollout") else {}
    return {**kept, "rows": found.rows, "columns": found.columns, **made}


def _heads(subject: Subject) -> list[dict[str, Any]]:
    """What the answers lose without each head, on this text alone."""
    counts = [count_heads(subject.net, site) or 0 for site in find_attention_layers(subject.net)]
    if sum(counts) > MOST_HEADS or (sum(counts) + 2 * len(counts)) * work(subject) > EFFORT:
        return []

    def measure() -> dict[str, float]:
        return {"said": float(subject.whole().mean())}

    _, rows = head_importance(subject.net, measure)
    return [{"site": r.layer, "head": r.head, "how": r.intervention, "change": r.change["said"]} for r in rows]
