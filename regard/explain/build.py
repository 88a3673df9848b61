"""Build a `Look` from an explainer: attention maps, weights, prediction, faithfulness, heads and interventions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from regard import pages
from regard.explain.explainer import MAX_CELLS, Attribution, Explainer
from regard.explain.interventions import Intervention, parse_intervention, run_interventions
from regard.explain.look_result import Look
from regard.explain.map_faithfulness import MAX_FLOPS, estimate_flops, measure_maps, summarize_faithfulness
from regard.inspect import (
    AttentionMap,
    count_heads,
    find_attention_layers,
    head_importance,
    rollout,
    self_attention_maps,
)
from regard.inspect.faithfulness import shorten
from regard.pages.word_layout import LINE_BREAK

MAX_HEADS = 400  # to ablate one by one
MAX_LISTED = 6  # layers named in a note
MAX_TITLE = 60


def build_look(
    explainer: Explainer,
    *,
    faithful: bool = True,
    heads: bool | None = None,
    interventions: Sequence[Intervention | str] = (),
    notes: Sequence[str] = (),
) -> Look:
    """Look at one input.

    Args:
        explainer: The model with its input.
        faithful: Measure faithfulness.
        heads: Measure the importance of each head on this input; like `faithful` by default.
        interventions: What-if experiments, parsed or as written (regard.explain.interventions); "swap" must be parsed.
        notes: Sentences for the reader.
    """
    maps, recording = explainer.record_maps()
    small = [m for m in maps if m.weights.shape[1] * m.weights.shape[2] <= MAX_CELLS]
    omitted = [*recording.skipped, *(m.layer for m in maps if all(m is not kept for kept in small))]
    small += rollout_maps(small)
    data = _describe(explainer, small, notes)
    if omitted:
        data["notes"].append(f"Maps of more than {MAX_CELLS:,} cells are left out: {_list_layers(omitted)}.")
    if explainer.targets:
        scores = explainer.full_scores()
        data["score"] = float(scores[0]) if len(scores) == 1 else None
        if interventions:
            parsed = [parse_intervention(one) if isinstance(one, str) else one for one in interventions]
            data["interventions"] = [result.as_dict() for result in run_interventions(explainer, parsed, scores)]
        if faithful if heads is None else heads:
            data["heads"] = _measure_heads(explainer)
    attribution = explainer.attribute(maps)
    if attribution is not None and len(attribution.weights):
        _add_weights(data, explainer, attribution)
        if faithful:
            _add_faithfulness(data, explainer, attribution, small)
    return Look(data)


def rollout_maps(maps: Sequence[AttentionMap]) -> list[AttentionMap]:
    """Rollout of each axis that attends to itself in several layers, for each member of an ensemble."""
    result = []
    for member in dict.fromkeys(_member(m.layer) for m in maps):
        own = [m for m in maps if _member(m.layer) == member]
        for axis in dict.fromkeys(m.rows for m in own if m.rows == m.columns):
            layers = self_attention_maps(own, axis)
            if len(layers) > 1 and len({m.weights.shape[1:] for m in layers}) == 1:
                name = "rollout" if axis == "tokens" else f"rollout of the {axis}"
                name = f"{name}, {member}" if member else name
                result.append(AttentionMap(name, rollout([m.weights.float() for m in layers]), axis, axis))
    return result


def _describe(explainer: Explainer, maps: Sequence[AttentionMap], notes: Sequence[str]) -> dict[str, Any]:
    """The data of a page before anything is measured."""
    title = re.sub(r"\s+", " ", LINE_BREAK.sub(" ", explainer.title))
    targets, probabilities = explainer.targets, explainer.probabilities()
    data: dict[str, Any] = {
        "title": title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 3] + "...",
        "model": explainer.model_name,
        "run": explainer.folder,
        "text": explainer.text,
        "tokens": [{k: v for k, v in token.items() if k != "fixed"} for token in explainer.tokens],
        "maps": [_store(m) for m in maps],
        "notes": list(notes),
        "default_layer": explainer.default_layer,
        "score_label": f"{explainer.score_name}({shorten(targets[0])})"
        if len(targets) == 1
        else f"{explainer.score_name} of a word",
        **explainer.page_fields(),
    }
    if probabilities:
        label = targets[0] if len(targets) == 1 and targets[0] in probabilities else next(iter(probabilities))
        data["prediction"] = {"label": label, "probabilities": probabilities}
    return data


def _add_weights(data: dict[str, Any], explainer: Explainer, attribution: Attribution) -> None:
    data["weights"] = attribution.weights.mean(0).tolist()
    data["weights_description"] = attribution.description
    data |= attribution.page_fields
    if len(explainer.targets) > 1 or "targets" in data:
        targets = data.get("targets") or [{} for _ in explainer.targets]
        rows = [[float(f"{w:.6g}") for w in row] for row in attribution.weights]  # rounded: the page stays small
        data["targets"] = [
            {**target, "label": label, "weights": row, "faithfulness": None}
            for target, label, row in zip(targets, explainer.targets, rows, strict=True)
        ]


def _add_faithfulness(
    data: dict[str, Any], explainer: Explainer, attribution: Attribution, maps: Sequence[AttentionMap]
) -> None:
    hops = (data.get("hops") or {}).get("weights") or []
    result = measure_maps(explainer, attribution.weights, maps, hops)
    data["row_description"] = explainer.row_description
    for stored, report in zip(data["maps"], result.layers, strict=True):
        stored["faithfulness"] = report
    if hops:
        data["hops"]["faithfulness"] = result.hops
    if "targets" in data:
        for target, report, scores in zip(data["targets"], result.targets, result.scores_without, strict=True):
            target |= {"faithfulness": report, "scores_without": scores}
        data["faithfulness"] = summarize_faithfulness(result.targets, " Select a word to see its own metrics.")
    else:
        data["faithfulness"] = result.targets[0]
        data["other_attributions"] = result.other_attributions
        data["scores_without"] = result.scores_without[0]


def _list_layers(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more


def _member(layer: str) -> str:
    """Member of an ensemble: `members.0` of `members.0.layers.1.attend`."""
    match = re.match(r"members\.\d+(?=\.)", layer)
    return match[0] if match else ""


def _store(attention_map: AttentionMap) -> dict[str, Any]:
    stored = pages.quantize(attention_map.weights.float().numpy())
    stored |= {"layer": attention_map.layer, "rows": attention_map.rows, "columns": attention_map.columns}
    return stored | ({"rollout": True} if attention_map.layer.startswith("rollout") else {})


def _measure_heads(explainer: Explainer) -> list[dict[str, Any]]:
    """Change of the mean score without each head, on this input; empty if that takes too long."""
    counts = [count_heads(explainer.model, layer) or 0 for layer in find_attention_layers(explainer.model)]
    if sum(counts) > MAX_HEADS or (sum(counts) + 2 * len(counts)) * estimate_flops(explainer) > MAX_FLOPS:
        return []
    _, results = head_importance(explainer.model, lambda: {"score": float(explainer.full_scores().mean())})
    return [
        {"layer": r.layer, "head": r.head, "intervention": r.intervention, "change": r.change["score"]} for r in results
    ]
