"""The recommendation in words, with how sure it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.comparison.designs import BAGS
from regard.comparison.formatting import gap, interval, more_seeds, shown

QUICKER = 0.8
"""Of those that cannot be told apart, one is preferred that takes at most this share of the best one's time."""

Row = Mapping[str, Any]


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
    reached = f"{shown(best['mean'], kind, best['high'] - best['low'])} ({interval(best['low'], best['high'], kind)})"
    what = f"{found['measure']} ({explain})"
    bag = "A bag of words wins here. " if _only_bags(leaders, rows) else ""
    if len(rows) == 1:
        return f"{best['name']} reaches {reached} {what}; with nothing beside it, that recommends nothing."
    if len(leaders) == 1:
        second = rows[1]
        return (
            f"{bag}Use {best['name']}: {reached} {what}, told apart from every other design. The next, "
            f"{second['name']}, has {shown(second['mean'], kind, second['high'] - second['low'])}."
        )
    most = "lowest" if found["better"] == "min" else "highest"
    lead = (
        f"{bag}{_and([row['name'] for row in leaders])} cannot be told apart; the {most} mean has {best['name']} with "
        f"{reached} {what}."
    )
    if all(row["mean"] == best["mean"] for row in leaders):
        fast = min(leaders, key=lambda row: (row["latency"] or 0.0, row["seconds"]))
        return f"{lead} No difference was seen at all; {fast['name']} answers fastest. More training may part them."
    margin = found.get("margin", 0.0)
    reach = {row["name"]: _reaches(found, best, row) for row in leaders[1:]}
    open_ = [row for row in leaders[1:] if reach[row["name"]][0] > margin]
    close = [row for row in leaders[1:] if max(reach[row["name"]]) <= margin]
    if open_ and not close:
        return f"{lead} {_unsettled(found, best, open_, kind, alone=True)}"
    others = [row for row in leaders[1:] if row not in open_]
    said = [lead, _among(found, best, close, kind) + _ahead(found, best, others, kind) + "."]
    if open_:
        said.append(_unsettled(found, best, open_, kind, alone=False))
    return " ".join(said)


def _only_bags(leaders: Sequence[Row], rows: Sequence[Row]) -> bool:
    """Whether bags of words alone are first, with other designs behind them."""
    return all(row.get("model") in BAGS for row in leaders) and any(row.get("model") not in BAGS for row in rows)


def _among(found: Mapping[str, Any], best: Row, close: Sequence[Row], kind: str) -> str:
    """Which of some that are about as good."""
    cheap = min((best, *close), key=lambda row: (row["latency"] or 0.0, row["seconds"]))
    if cheap is best:
        return f"Use {best['name']}" + (", which answers fastest of those about as good" if close else "")
    if (cheap["latency"] or 0.0) > QUICKER * (best["latency"] or 0.0):
        return f"Use {best['name']}: none of the others answers much faster"
    between = gap(abs(best["mean"] - cheap["mean"]), kind, _width(_pair(found, best, cheap)))
    ask = f" ({cheap['more']} would tell, if that is the true difference)" if cheap["more"][:1].isdigit() else ""
    return (
        f"Use {cheap['name']}, which answers fastest ({1e3 * (cheap['latency'] or 0):.1f} ms): what it lacks, "
        f"{between}, may be chance{ask}"
    )


def _ahead(found: Mapping[str, Any], best: Row, others: Sequence[Row], kind: str) -> str:
    """By how much one of these may truly be better than the best mean."""
    reach = [(_reaches(found, best, row)[0], _width(_pair(found, best, row))) for row in others]
    most, width = max(reach, default=(0.0, 0.0))
    return f"; another may be better than {best['name']} by at most {gap(most, kind, width)}" if most > 0 else ""


def _unsettled(found: Mapping[str, Any], best: Row, others: Sequence[Row], kind: str, *, alone: bool) -> str:
    """What the comparison cannot tell, and what would."""
    lead = "The comparison cannot tell which to use: " if alone else "Of others it cannot tell: "
    each = []
    for row in others:
        better, worse = _reaches(found, best, row)
        width = _width(_pair(found, best, row))
        each.append(
            f"{row['name']} may be better than {best['name']} by {gap(better, kind, width)} or worse by "
            f"{gap(worse, kind, width)}"
        )
    narrow = [_pair(found, best, row)["narrow"] for row in others]
    small = gap(found["margin"], kind, found["margin"])
    if min(len(row["seeds"]) for row in (best, *others)) == 1:
        would = "More seeds would narrow that; how many, one seed cannot say."
    elif any(one is None for one in narrow):
        would = f"No number of seeds alone would bring that below {small}: more test items are wanted."
    else:
        would = (
            f"About {more_seeds(max(narrow))} of each would bring that below {small}, if seeds spread as those seen."
        )
    more = [_pair(found, best, row).get("more_seeds") for row in others]
    if known := [one for one in more if one is not None]:
        would += f" {more_seeds(max(known))} would tell them apart, if the differences seen are the true ones."
    return f"{lead}{'; '.join(each)}. {would}"


def _pair(found: Mapping[str, Any], a: Row, b: Row) -> Mapping[str, Any]:
    names = {a["name"], b["name"]}
    return next((p for p in found.get("pairs", []) if {p["a"], p["b"]} == names), {})


def _reaches(found: Mapping[str, Any], best: Row, other: Row) -> tuple[float, float]:
    """By how much the other may be better, and by how much worse."""
    pair = _pair(found, best, other)
    if not pair:
        return 0.0, 0.0
    low, high = (pair["low"], pair["high"]) if pair["a"] == other["name"] else (-pair["high"], -pair["low"])
    return (high, -low) if found["better"] == "max" else (-low, high)


def _width(pair: Mapping[str, Any]) -> float:
    return pair["high"] - pair["low"] if pair else 0.0


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
