"""The recommendation in words: which design to use, and how certain that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.comparison.designs import BASELINES
from regard.comparison.formatting import format_difference, format_interval, format_metric, format_more_seeds

FASTER = 0.8
"""A faster design is preferred if its latency is at most this fraction of the best one's."""

Results = Mapping[str, Any]
Row = Mapping[str, Any]


def recommend(results: Results, kind: str, description: str) -> str:
    """Return the recommendation, from the ranks alone, and its caveats.

    Args:
        results: The content of results.json.
        kind: The format of the metric, such as "percent".
        description: What the metric is.
    """
    if not results["rows"]:
        return "No run is evaluated yet."
    sentences = [_recommend_design(results, kind, description), _caveats(results)]
    if results["evaluated"] < results["runs"]:
        sentences.append(f"Incomplete: {results['evaluated']} of {results['runs']} runs are evaluated.")
    return " ".join(filter(None, sentences))


def _recommend_design(results: Results, kind: str, description: str) -> str:
    rows = results["rows"]
    leaders = [row for row in rows if row["rank"] == 1]
    best = leaders[0]
    value = f"{_format_mean(best, kind)} ({format_interval(best['low'], best['high'], kind)})"
    metric = f"{results['metric']} ({description})"
    baseline = "A bag-of-words baseline is the best here. " if _only_baselines(leaders, rows) else ""
    if len(rows) == 1:
        return f"{best['name']} reaches {value} {metric}; there is nothing to compare it with."
    if len(leaders) == 1:
        return (
            f"{baseline}Use {best['name']}: {value} {metric}, significantly better than every other design. The next, "
            f"{rows[1]['name']}, has {_format_mean(rows[1], kind)}."
        )
    highest = "lowest" if results["better"] == "min" else "highest"
    lead = (
        f"{baseline}{_join([row['name'] for row in leaders])} are not significantly different; {best['name']} has the "
        f"{highest} mean, {value} {metric}."
    )
    if all(row["mean"] == best["mean"] for row in leaders):
        fastest = min(leaders, key=_speed)
        return f"{lead} Their means are equal; {fastest['name']} is the fastest. More training may separate them."
    margin = results.get("margin", 0.0)
    differences = {row["name"]: _possible_difference(results, best, row) for row in leaders[1:]}
    undecided = [row for row in leaders[1:] if differences[row["name"]][0] > margin]
    close = [row for row in leaders[1:] if max(differences[row["name"]]) <= margin]
    if undecided and not close:
        return f"{lead} {_describe_undecided(results, best, undecided, kind, alone=True)}"
    others = [row for row in leaders[1:] if row not in undecided]
    sentences = [lead, _choose_fastest(results, best, close, kind) + _upper_bound(results, best, others, kind) + "."]
    if undecided:
        sentences.append(_describe_undecided(results, best, undecided, kind, alone=False))
    return " ".join(sentences)


def _format_mean(row: Row, kind: str) -> str:
    return format_metric(row["mean"], kind, row["high"] - row["low"])


def _speed(row: Row) -> tuple[float, float]:
    """Sort key: latency, then training time."""
    return row["latency"] or 0.0, row["seconds"]


def _only_baselines(leaders: Sequence[Row], rows: Sequence[Row]) -> bool:
    """Return whether all leaders are bag-of-words baselines, and other designs rank behind them."""
    return all(row.get("model") in BASELINES for row in leaders) and any(
        row.get("model") not in BASELINES for row in rows
    )


def _choose_fastest(results: Results, best: Row, close: Sequence[Row], kind: str) -> str:
    """Recommend the fastest of the designs that are about as good as the best."""
    fastest = min((best, *close), key=_speed)
    if fastest is best:
        return f"Use {best['name']}" + (", the fastest of those that are about as good" if close else "")
    if (fastest["latency"] or 0.0) > FASTER * (best["latency"] or 0.0):
        return f"Use {best['name']}: none of the others is much faster"
    difference = format_difference(
        abs(best["mean"] - fastest["mean"]), kind, _width(_find_pair(results, best, fastest))
    )
    needed = fastest["vs_best"]
    needed = f" ({needed} would show it, if that is the true difference)" if needed[:1].isdigit() else ""
    return (
        f"Use {fastest['name']}, the fastest ({1e3 * (fastest['latency'] or 0):.1f} ms): its difference of "
        f"{difference} may be random{needed}"
    )


def _upper_bound(results: Results, best: Row, others: Sequence[Row], kind: str) -> str:
    """Say by how much one of the others may be better than the best mean."""
    bounds = [(_possible_difference(results, best, row)[0], _width(_find_pair(results, best, row))) for row in others]
    largest, width = max(bounds, default=(0.0, 0.0))
    if largest <= 0:
        return ""
    return f"; another may be better than {best['name']} by at most {format_difference(largest, kind, width)}"


def _describe_undecided(results: Results, best: Row, others: Sequence[Row], kind: str, *, alone: bool) -> str:
    """Say what the comparison cannot decide, and what would."""
    lead = "The comparison cannot decide which to use: " if alone else "Undecided: "
    differences = []
    for row in others:
        better, worse = _possible_difference(results, best, row)
        width = _width(_find_pair(results, best, row))
        differences.append(
            f"{row['name']} may be better than {best['name']} by {format_difference(better, kind, width)} or worse by "
            f"{format_difference(worse, kind, width)}"
        )
    pairs = [_find_pair(results, best, row) for row in others]
    seeds_for_margin = [pair["seeds_for_margin"] for pair in pairs]
    margin = format_difference(results["margin"], kind, results["margin"])
    if min(len(row["seeds"]) for row in (best, *others)) == 1:
        remedy = "More seeds would narrow that; how many cannot be estimated from one seed."
    elif any(seeds is None for seeds in seeds_for_margin):
        remedy = f"No number of seeds alone would bring that below {margin}: more test items are needed."
    else:
        remedy = (
            f"About {format_more_seeds(max(seeds_for_margin))} for each would bring that below {margin}, if their "
            "variance stays the same."
        )
    if seeds_needed := [seeds for pair in pairs if (seeds := pair.get("seeds_needed")) is not None]:
        remedy += f" {format_more_seeds(max(seeds_needed))} would show the differences, if they are the true ones."
    return f"{lead}{'; '.join(differences)}. {remedy}"


def _find_pair(results: Results, a: Row, b: Row) -> Mapping[str, Any]:
    names = {a["name"], b["name"]}
    return next((pair for pair in results.get("pairs", []) if {pair["a"], pair["b"]} == names), {})


def _possible_difference(results: Results, best: Row, other: Row) -> tuple[float, float]:
    """Return by how much the other may be better, and by how much worse."""
    pair = _find_pair(results, best, other)
    if not pair:
        return 0.0, 0.0
    low, high = (pair["low"], pair["high"]) if pair["a"] == other["name"] else (-pair["high"], -pair["low"])
    return (high, -low) if results["better"] == "max" else (-low, high)


def _width(pair: Mapping[str, Any]) -> float:
    return pair["high"] - pair["low"] if pair else 0.0


def _caveats(results: Results) -> str:
    sentences = []
    if min((len(row["seeds"]) for row in results["rows"]), default=0) == 1:
        sentences.append(
            "There is one seed: this says which of these trained models is better on these data, not which design is."
        )
    if duplicates := results["duplicates"].get("test in training", 0):
        fraction = duplicates / max(results["items"]["test"], 1)
        sentences.append(
            f"{duplicates:,} test items ({fraction:.1%}) are also in the training part, which overestimates all."
        )
    if results["failures"]:
        sentences.append(f"{len(results['failures'])} runs failed and are missing.")
    sentences.append("It holds for this budget, these data and these settings; more training may change it.")
    return " ".join(sentences)


def _join(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
