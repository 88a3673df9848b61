"""The recommendation in words, with how sure it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

QUICKER = 0.8
"""Of those that cannot be told apart, one is preferred that takes at most this share of the best one's time."""


def shown(value: float, kind: str) -> str:
    """A measure for people: a share in percent, else four figures."""
    return f"{100 * value:.1f} %" if kind == "percent" else f"{value:.4g}"


def gap(value: float, kind: str) -> str:
    """A difference of two measures."""
    return f"{100 * value:.1f} points" if kind == "percent" else f"{value:.3g}"


def recommendation(found: Mapping[str, Any], kind: str, explain: str) -> str:
    """Which to use, from the ranks alone, and what speaks against trusting it."""
    rows = found["rows"]
    if not rows:
        return "Nothing is measured yet."
    said = [_first(found, kind, explain), _doubt(found)]
    if found["measured"] < found["runs"]:
        said.append(f"Not all is done: {found['measured']} of {found['runs']} runs are measured.")
    return " ".join(filter(None, said))


def _first(found: Mapping[str, Any], kind: str, explain: str) -> str:
    rows = found["rows"]
    leaders = [row for row in rows if row["rank"] == 1]
    best = leaders[0]
    reached = f"{shown(best['mean'], kind)} ({shown(best['low'], kind)} to {shown(best['high'], kind)})"
    what = f"{found['measure']} ({explain})"
    if len(rows) == 1:
        return f"{best['name']} reaches {reached} {what}; with nothing beside it, that recommends nothing."
    if len(leaders) == 1:
        second = rows[1]
        return (
            f"Use {best['name']}: {reached} {what}, told apart from every other design. The next, {second['name']}, "
            f"has {shown(second['mean'], kind)}."
        )
    names = [row["name"] for row in leaders]
    cheap = min(leaders, key=lambda row: (row["latency"] or 0.0, row["seconds"]))
    lead = f"{_and(names)} cannot be told apart; the highest mean has {best['name']} with {reached} {what}."
    if found["better"] == "min":
        lead = lead.replace("the highest mean", "the lowest mean")
    if cheap is best:
        return f"{lead} It also answers fastest, so there is no reason to use another of them."
    if (cheap["latency"] or 0.0) > QUICKER * (best["latency"] or 0.0):
        return f"{lead} Use it: none of the others answers much faster."
    between = gap(abs(best["mean"] - cheap["mean"]), kind)
    ask = (
        f" ({cheap['more']} would tell, if the difference seen is the true one)" if cheap["more"][:1].isdigit() else ""
    )
    return (
        f"{lead} Use {cheap['name']}, which answers fastest ({1e3 * (cheap['latency'] or 0):.1f} ms): what it lacks, "
        f"{between}, may be chance{ask}."
    )


def _doubt(found: Mapping[str, Any]) -> str:
    seeds = min((len(row["seeds"]) for row in found["rows"]), default=0)
    said = []
    if seeds == 1:
        said.append(
            "There is one seed: this says which of these trained models is better on this text, not which design is."
        )
    repeated = found["repeated"].get("test in training", 0)
    if repeated:
        share = repeated / max(found["items"]["test"], 1)
        said.append(f"{repeated:,} test items ({share:.1%}) stand in the training part too, which flatters all.")
    if found["failures"]:
        said.append(f"{len(found['failures'])} runs failed and are missing.")
    said.append("It holds for this budget, these data and the settings named below; more training may turn it round.")
    return " ".join(said)


def _and(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
