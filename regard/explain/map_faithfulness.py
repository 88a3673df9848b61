"""Faithfulness of every attention map on a page: text, heads, mean and maximum over heads, rollout, and hops.

Random baselines and leave-one-out predictions are computed once and shared; each map adds two forward passes (top words
removed, top words only).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard.explain.explainer import Explainer
from regard.inspect import AttentionMap, faithfulness_of_maps
from regard.inspect.faithfulness import SIGNIFICANT

MAX_FLOPS = 4e12  # of all measurements, about
MAX_MAPS = 4000


@dataclass
class MapFaithfulness:
    """Faithfulness reports of a page, as plain data.

    Attributes:
        targets: Report of the text's weights, for each target.
        scores_without: For each target, its score without the word of each token; None if not measured.
        other_attributions: Gradients and leave-one-out of the first target, each summing to one.
        layers: For each map, the reports of its heads, of their mean and of their maximum; None if not measured.
        hops: Report of each hop.
    """

    targets: list[dict[str, Any]]
    scores_without: list[list[float | None]]
    other_attributions: dict[str, list[float]]
    layers: list[dict[str, Any] | None]
    hops: list[dict[str, Any]]


@dataclass
class _WeightMap:
    """Weights (targets, tokens) to measure. `kind` is "text", "hop", "single", "mean" or "max"."""

    kind: str
    layer: int
    weights: np.ndarray
    reports: list[dict[str, Any]] = field(default_factory=list)


def measure_maps(
    explainer: Explainer, weights: np.ndarray, maps: Sequence[AttentionMap], hops: Sequence[Any] = ()
) -> MapFaithfulness:
    """Measure the weights of the text (targets, tokens), every map, and every hop."""
    num_targets, budget = len(explainer.targets), max(40, int(MAX_FLOPS / estimate_flops(explainer)))
    n = max(1, len(explainer.tokens))
    weight_maps = [_WeightMap("text", 0, weights)]
    weight_maps += [_WeightMap("hop", 0, np.asarray(hop, float)[None]) for hop in hops]
    heads = [weight_map for i, one in enumerate(maps) for weight_map in _head_maps(explainer, one, i)]
    weight_maps += sorted(heads, key=lambda one: one.kind == "single")  # single heads last: there are most of them
    weight_maps = weight_maps[: max(1, MAX_MAPS // max(1, num_targets))]
    batch_size, steps = max(1, min(20, explainer.batch_tokens // (4 * n))), 20 if budget > 200 else 10
    gradients = _gradients(explainer, batch_size, steps)
    results = faithfulness_of_maps(
        explainer.score_masks,
        [row for one in weight_maps for row in one.weights],
        explainer.word_ids,
        explainer.targets,
        target_ids=[j for one in weight_maps for j in range(len(one.weights))],
        num_erased=num_targets + budget // 4,
        gradients=gradients,
        score_name=explainer.score_name,
        unit=explainer.unit,
        num_random=min(40, max(20, budget // 6)),
        max_words=min(256, max(20, budget // 2)),
    )
    start = 0
    for one in weight_maps:
        end = start + len(one.weights)
        one.reports = [_compact(result.as_dict()) for result in results[start:end]]
        start = end
    others = {
        "gradients": None if gradients is None else np.abs(gradients[0]),
        f"leaving {explainer.unit}s out": results[0].effect,
    }
    without = [np.full(n, np.nan) if r.score_without is None else r.score_without for r in results[:num_targets]]
    return MapFaithfulness(
        targets=[result.as_dict() for result in results[:num_targets]],
        scores_without=[[None if np.isnan(s) else _round(s) for s in row] for row in without],
        other_attributions={
            name: [_round(w) for w in values / values.sum()]
            for name, values in others.items()
            if values is not None and values.sum() > 0
        },
        layers=[_layer_reports(weight_maps, i) for i in range(len(maps))],
        hops=[one.reports[0] for one in weight_maps if one.kind == "hop"],
    )


def summarize_faithfulness(reports: Sequence[dict[str, Any]], hint: str = "") -> dict[str, Any]:
    """Summarize the reports of several targets: mean metrics, and how many targets are better than chance."""
    measured = [report for report in reports if report["metrics"]]
    if len(measured) < 2:
        return measured[0] if measured else reports[0] if reports else {"verdict": "Nothing to explain.", "metrics": []}
    metrics = []
    for name in dict.fromkeys(metric["name"] for report in measured for metric in report["metrics"]):
        values = [metric for report in measured for metric in report["metrics"] if metric["name"] == name]
        means = {key: float(np.mean([metric[key] for metric in values])) for key in ("attention", "random", "uniform")}
        good = sum(metric["better_than"] >= SIGNIFICANT for metric in values)
        description = f"mean of {len(values)} words; better than chance for {good} of them"
        metrics.append({"name": name, **means, "better_than": good / len(values), "description": description})
    good = sum(any(metric["better_than"] >= SIGNIFICANT for metric in report["metrics"]) for report in measured)
    faithful = sum("is a faithful explanation" in report["verdict"] for report in measured)
    if not good:
        verdict = "For no word here is attention better than chance as an explanation."
    else:
        expected = len(measured) * (1 - SIGNIFICANT ** len(metrics))
        verdict = (
            f"Attention explains {faithful} of {len(measured)} words faithfully; for {good} it is better than chance "
            f"by at least one metric (about {expected:.0f} expected at random).{hint}"
        )
    return {"verdict": verdict, "metrics": metrics}


def estimate_flops(explainer: Explainer) -> float:
    """FLOPs of one forward pass, about: two per parameter and token."""
    parameters = sum(p.numel() for p in explainer.model.parameters())
    embeddings = sum(m.weight.numel() for m in explainer.model.modules() if isinstance(m, torch.nn.Embedding))
    return 2.0 * max(1, len(explainer.tokens)) * max(parameters - embeddings, 1) + 1e6


def _head_maps(explainer: Explainer, attention_map: AttentionMap, layer: int) -> list[_WeightMap]:
    """Rows of the targets, of every head and of all heads together; none if the columns cannot be removed."""
    heads = attention_map.weights.double().numpy()
    kinds = {"single": heads}
    if len(heads) > 1:
        kinds |= {"mean": heads.mean(0, keepdims=True), "max": heads.max(0, keepdims=True)}
    target_rows = explainer.target_rows(attention_map.rows, heads.shape[1])
    result = []
    for kind, weights in kinds.items():
        rows = np.stack([weights[:, row].mean(1) for row in target_rows], 1)  # (heads, targets, columns)
        token_weights = explainer.token_weights(attention_map.columns, rows)
        if token_weights is not None:
            result += [_WeightMap(kind, layer, head) for head in token_weights]
    return result


def _layer_reports(weight_maps: Sequence[_WeightMap], layer: int) -> dict[str, Any] | None:
    own = [one for one in weight_maps if one.kind not in ("text", "hop") and one.layer == layer]
    if not own:
        return None
    reports = [(one.kind, _compact(summarize_faithfulness(one.reports))) for one in own]
    by_kind: dict[str, Any] = {"single": [report for kind, report in reports if kind == "single"]}
    return by_kind | {kind: report for kind, report in reports if kind != "single"}


def _gradients(explainer: Explainer, batch_size: int, steps: int) -> list[np.ndarray] | None:
    """Integrated gradients of each target, if the model supports them."""
    try:
        gradients = explainer.gradients(batch_size=batch_size, steps=steps)
    except NotImplementedError:  # a kernel without a backward pass
        return None
    return None if gradients is None else list(gradients.reshape(len(explainer.targets), -1).double().numpy())


def _compact(report: dict[str, Any]) -> dict[str, Any]:
    """Without descriptions and with rounded numbers: a page has hundreds of reports."""
    keys = ("attention", "random", "uniform", "better_than")
    metrics = [{"name": metric["name"], **{key: _round(metric[key]) for key in keys}} for metric in report["metrics"]]
    return {"verdict": report["verdict"], "metrics": metrics}


def _round(value: float) -> float:
    return float(f"{value:.5g}")
