"""Faithfulness of every map on a page: heads, their mean, rollout and hops; and evidence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_explainers import exact_maps, masked_token_explainer, translation_explainer

from regard.errors import UserError
from regard.explain.build import build_look, rollout_maps
from regard.explain.look_result import Look
from regard.explain.rationales import add_evidence, find_spans
from regard.inspect import faithfulness

METRICS = ["comprehensiveness", "sufficiency", "leave-one-out", "gradients"]


def measure(explainer, weights: np.ndarray) -> dict[str, float]:
    """Metrics of `faithfulness` for these weights."""
    found = faithfulness(lambda mask: explainer.score_masks(mask)[:, 0], weights, explainer.word_ids, "x")
    return {m.name: m.attention for m in found.metrics}


def test_a_head_is_measured_on_the_row_of_its_target(masked):
    look, exact, explainer = masked
    layer = "layers.1.attention.attend"
    stored = next(m for m in look.data["maps"] if m["layer"] == layer)["faithfulness"]
    assert len(stored["single"]) == 4
    weights = exact[layer][:, explainer.position]
    for found, row in [*zip(stored["single"], weights, strict=True), (stored["mean"], weights.mean(0))]:
        assert [r["name"] for r in found["metrics"]] == METRICS
        expected = measure(explainer, row)
        for metric in found["metrics"][:3]:
            assert metric["attention"] == pytest.approx(expected[metric["name"]], abs=1e-3)
        assert "On this input attention is" in found["verdict"]
    best = measure(explainer, weights.max(0))
    assert stored["max"]["metrics"][0]["attention"] == pytest.approx(best["comprehensiveness"], abs=1e-3)
    layered = next(m for m in look.data["maps"] if m["layer"] == "rollout")["faithfulness"]
    assert layered["single"][-1]["metrics"][0]["attention"] == pytest.approx(
        look.data["faithfulness"]["metrics"][0]["attention"], abs=1e-4
    )


def test_self_attention_of_the_decoder_is_not_measured(translated):
    look, _, explainer = translated
    reports = {m["layer"]: m["faithfulness"] for m in look.data["maps"]}
    for layer, found in reports.items():
        crossing = layer in explainer.cross_attention_layers
        inside = not crossing and layer.startswith("decoder")
        assert (found is None) == inside, layer
    rows = reports[explainer.default_layer]["mean"]["metrics"]
    assert rows[0]["attention"] == pytest.approx(look.data["faithfulness"]["metrics"][0]["attention"], abs=1e-4)


def test_tooltips_show_the_score_without_the_word(masked, translated):
    look, _, explainer = masked
    mask = np.array([w != explainer.word_ids[2] for w in explainer.word_ids])
    after = float(explainer.score_masks([mask])[0, 0])
    assert look.data["scores_without"][2] == pytest.approx(after, rel=1e-4)
    assert look.data["scores_without"][0] is None  # [CLS] is never removed
    assert f"{look.data['score_label']} {look.data['score']:.4g} → {look.data['scores_without'][2]:.4g}" in look.html()
    target = translated[0].data["targets"][1]
    assert len(target["scores_without"]) == len(translated[0].data["tokens"])


def test_members_of_an_ensemble_are_rolled_out_separately(masked):
    _, _, explainer = masked
    layers = explainer.record_maps()[0]
    two = [type(m)(f"members.{i}.{m.layer}", m.weights, m.rows, m.columns) for i in (0, 1) for m in layers]
    (single,), both = rollout_maps(layers), rollout_maps(two)
    assert [m.layer for m in both] == ["rollout, members.0", "rollout, members.1"]
    for one in both:
        torch.testing.assert_close(one.weights, single.weights)


def test_evidence_is_found_by_its_text():
    text = "We loved the soup, and\nloved the  bill."
    assert find_spans(text, ["Loved"]) == [(3, 8), (23, 28)]
    assert find_spans(text, ["the bill."]) == [(29, 39)]
    with pytest.raises(UserError, match="'lov' is not in the text"):
        find_spans(text, ["lov"])


def test_evidence_fraction_and_recall(masked):
    look = masked[0]
    weights = np.array(look.data["weights"])
    found = look.with_evidence("brown", "lazy").data
    words = {w: sum(weights[i] for i, t in enumerate(found["tokens"]) if t["word"] == w) for w in range(1, 11)}
    inside = [i for i, t in enumerate(found["tokens"]) if t["word"] in (3, 8)]
    assert found["evidence_fraction"] == pytest.approx(weights[inside].sum() / weights.sum())
    top = sorted(words, key=lambda w: -words[w])[:2]
    assert found["evidence_recall"] == {"total": 2, "found": len({3, 8} & set(top)), "random": pytest.approx(4 / 10)}
    html = Look(found).html()
    assert f"{100 * found['evidence_fraction']:.1f} %" in html
    assert "of its 2 words are among the 2 most attended" in html
    assert add_evidence({"tokens": []}, [(0, 1)]) == {"tokens": []}


def test_swapping_with_an_equal_model_changes_nothing():
    from regard.explain.interventions import Intervention

    explainer = translation_explainer()
    interventions = [
        Intervention("swap", layer, None, translation_explainer()) for layer in explainer.cross_attention_layers
    ]
    same = build_look(explainer, faithful=False, heads=False, interventions=interventions).data["interventions"]
    assert all(row["after"] == pytest.approx(row["before"], abs=1e-5) for row in same)
    other = build_look(
        explainer,
        faithful=False,
        heads=False,
        interventions=[Intervention("swap", "decoder", None, translation_explainer(1))],
    )
    assert other.data["interventions"][0]["after"] != pytest.approx(other.data["interventions"][0]["before"], abs=1e-3)
    assert exact_maps(masked_token_explainer())  # no edit is left
