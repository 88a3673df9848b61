"""Looks of masked tokens and translations: weights, metrics, interventions, and the result's API."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_explainers import masked_token_explainer, translation_explainer

from regard.errors import UserError
from regard.explain.build import build_look
from regard.explain.interventions import parse_intervention
from regard.inspect import ablate, edit, rollout

METRICS = ["comprehensiveness", "sufficiency", "leave-one-out", "gradients"]


def test_weights_of_a_masked_token_are_its_row_of_the_rollout(masked):
    look, exact, explainer = masked
    rolled_out = rollout([torch.from_numpy(w) for w in exact.values()])[-1]
    assert look.data["weights"] == pytest.approx(rolled_out[explainer.position].tolist(), abs=1e-6)
    assert [row["name"] for row in look.data["faithfulness"]["metrics"]] == METRICS
    probabilities = look.data["prediction"]["probabilities"]
    assert look.data["prediction"]["label"] == max(probabilities, key=probabilities.get)
    assert explainer.full_scores()[0] == pytest.approx(
        np.log(probabilities[look.data["prediction"]["label"]]), abs=1e-5
    )


def test_removed_words_are_not_in_the_input():
    explainer = masked_token_explainer()
    mask = np.ones(len(explainer.tokens), bool)
    mask[2:4] = False
    ids = explainer.ids[torch.from_numpy(mask)]
    with torch.no_grad():
        log_p = explainer.model(ids[None])[0][0, explainer.position - 2].log_softmax(-1)
    assert explainer.score_masks([mask])[0, 0] == pytest.approx(float(log_p[explainer.target]), abs=1e-5)


def test_all_words_of_a_translation_are_scored_in_one_pass():
    explainer = translation_explainer()
    scores = explainer.full_scores()
    target = torch.tensor([[explainer.bos_id, *explainer.target.ids[:-1]]])
    with torch.no_grad():
        logits = explainer.model(torch.tensor([explainer.source.ids]), target)[0].log_softmax(-1)
    log_p = logits.gather(-1, torch.tensor(explainer.target.ids)[:, None])[:, 0]
    assert explainer.targets == ["a", "burning", "red", "house"]
    assert scores == pytest.approx([float(log_p[g].sum()) for g in explainer.target_words], abs=1e-5)
    mask = np.ones(len(explainer.tokens), bool)
    mask[1] = False
    with torch.no_grad():
        shorter = torch.tensor([explainer.source.ids[:1] + explainer.source.ids[2:]])
        logits = explainer.model(shorter, target)[0].log_softmax(-1)
    log_p = logits.gather(-1, torch.tensor(explainer.target.ids)[:, None])[:, 0]
    assert explainer.score_masks([mask])[0] == pytest.approx(
        [float(log_p[g].sum()) for g in explainer.target_words], abs=1e-5
    )
    assert all(word == -1 for word in explainer.word_ids[explainer.source_length :])


def test_a_translation_has_metrics_for_each_word(translated):
    look, _, explainer = translated
    assert [q["label"] for q in look.data["targets"]] == explainer.targets
    for target in look.data["targets"]:
        assert [row["name"] for row in target["faithfulness"]["metrics"]] == METRICS
        assert sum(target["weights"]) == pytest.approx(1, abs=1e-5)
    assert {(m["rows"], m["columns"]) for m in look.data["maps"]} == {
        ("source", "source"),
        ("target", "before"),
        ("target", "source"),
    }
    assert "of 4 words" in look.data["faithfulness"]["verdict"] or "For no word" in look.data["faithfulness"]["verdict"]


def test_interventions_equal_the_same_edits():
    explainer, other = masked_token_explainer(0), masked_token_explainer(1)
    specs = ["hide:brown", "hide:#0", "ablate:layers.1:0,2", "uniform:layers.0", "ablate:all"]
    interventions = [parse_intervention(spec) for spec in specs] + [
        parse_intervention("swap:there:layers.0:1", lambda folder: other)
    ]
    before = float(explainer.full_scores()[0])
    results = build_look(explainer, faithful=False, heads=False, interventions=interventions).data["interventions"]
    assert len(results) == len(interventions) + 1
    assert results[-1]["description"] == "all of these together"
    assert all(one["before"] == pytest.approx(before) for one in results)
    with edit(explainer.model, "layers.1.attention.attend", ablate([0, 2])):
        assert results[2]["after"] == pytest.approx(float(explainer.full_scores()[0]), abs=1e-6)
    mask = np.array([explainer.text[t["start"] : t["end"]] not in ("bro", "wn") for t in explainer.tokens])
    assert mask.sum() == len(mask) - 2
    assert results[0]["after"] == pytest.approx(explainer.score_masks([mask])[0, 0], abs=1e-6)
    assert results[5]["after"] != pytest.approx(before, abs=1e-4)
    assert float(explainer.full_scores()[0]) == pytest.approx(before, abs=1e-7)  # the model is unchanged


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hide:browm", "did you mean 'brown'"),
        ("hide:#99", "words #0 to #"),
        ("ablate:layers.9", "no attention at"),
        ("ablate:layers.0:7", "heads 0 to 3"),
        ("ablate:layers.0:x", "expected head numbers"),
        ("burn:layers.0", "expected hide:WORD"),
        ("swap:layers.0", "swap:RUN:LAYER"),
    ],
)
def test_invalid_interventions_are_reported(spec, message):
    with pytest.raises(UserError, match=message):
        build_look(masked_token_explainer(), faithful=False, heads=False, interventions=[parse_intervention(spec)])


def test_head_importance_on_one_text(masked):
    look, _, explainer = masked
    before = float(explainer.full_scores()[0])
    rows = {(r["layer"], r["head"], r["intervention"]): r["change"] for r in look.data["heads"]}
    with edit(explainer.model, "layers.2.attention.attend", ablate([1])):
        after = float(explainer.full_scores()[0])
    assert rows["layers.2.attention.attend", 1, "ablate"] == pytest.approx(after - before, abs=1e-6)
    assert len(rows) == 3 * (4 + 2)


def test_a_look_has_typed_attributes_and_a_readable_repr(masked, translated):
    look, _, explainer = masked
    assert look.prediction == explainer.targets[0] == next(iter(look.probabilities))
    assert look.tokens == [token["text"] for token in explainer.tokens]
    np.testing.assert_allclose(look.weights, look.data["weights"])
    assert [metric.name for metric in look.faithfulness.metrics] == METRICS
    word, weight = look.words[0]
    special = sum(w for w, token in zip(look.weights, explainer.tokens, strict=True) if token["special"])
    assert sum(w for _, w in look.words) == pytest.approx(1 - special)
    lines = repr(look).splitlines()
    assert lines[0].endswith("with bert")
    assert look.prediction in lines[1]
    assert f"{word} {weight:.3f}" in lines[2]
    assert look.faithfulness.verdict in lines[3]
    assert "<iframe" in look._repr_html_()
    translation = translated[0]
    assert translation.prediction == "a burning red house"
    assert translation.probabilities == {}
    unmeasured = build_look(explainer, faithful=False)
    assert unmeasured.faithfulness is None
    assert "not measured" in repr(unmeasured)


def test_a_look_as_a_data_frame(masked):
    look = masked[0]
    frame = look.to_frame()
    assert list(frame.columns) == ["token", "text", "start", "end", "word", "special", "weight"]
    assert len(frame) == len(look.tokens)
    assert list(frame["weight"]) == look.data["weights"]
    assert list(frame["text"]) == look.tokens


def test_saved_json_and_csv(masked, tmp_path):
    import csv
    import json

    look, exact, _ = masked
    saved = json.loads(look.save(tmp_path / "look.json").read_text())
    assert saved["weights"] == look.data["weights"]
    rows = list(csv.DictReader((look.save(tmp_path / "look.csv")).open()))
    assert [float(row["weight"]) for row in rows] == look.data["weights"]
    for layer, weights in exact.items():
        np.testing.assert_allclose(look.maps()[layer], weights, atol=weights.max() / 510 + 1e-6)
