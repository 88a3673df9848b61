"""Every picture has its own figures: heads, their mean, rollout and hops, each judged by the words it points at."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_subjects import exact, missing, translation

from regard.errors import UserError
from regard.explain.build import seen_by, through
from regard.explain.rationales import compared, spans_of
from regard.inspect import faithfulness
from regard.tasks.classify.look import Look

ALL = ["comprehensiveness", "sufficiency", "leave-one-out", "gradients"]


def own(subject, weights: np.ndarray) -> dict[str, float]:
    """What `faithfulness` by itself says of these weights."""
    found = faithfulness(lambda kept: subject.predict(kept)[:, 0], weights, subject.words, "x")
    return {m.name: m.attention for m in found.measures}


def test_a_head_is_judged_by_the_row_of_the_word_asked_about(masked):
    look, seen, subject = masked
    site = "layers.1.attention.attend"
    stored = next(m for m in look.data["maps"] if m["site"] == site)["judged"]
    assert len(stored["single"]) == 4
    weights = seen[site][:, subject.place]
    for found, row in [*zip(stored["single"], weights, strict=True), (stored["mean"], weights.mean(0))]:
        assert [r["measure"] for r in found["rows"]] == ALL
        wanted = own(subject, row)
        for measured in found["rows"][:3]:
            assert measured["attention"] == pytest.approx(wanted[measured["measure"]], abs=1e-3)
        assert "On this input attention is" in found["sentence"]
    best = own(subject, weights.max(0))
    assert stored["max"]["rows"][0]["attention"] == pytest.approx(best["comprehensiveness"], abs=1e-3)
    layered = next(m for m in look.data["maps"] if m["site"] == "rollout")["judged"]
    assert layered["single"][-1]["rows"][0]["attention"] == pytest.approx(
        look.data["faithfulness"]["rows"][0]["attention"], abs=1e-4
    )


def test_words_of_the_translation_itself_cannot_be_taken_away(translated):
    look, _, subject = translated
    judged = {m["site"]: m["judged"] for m in look.data["maps"]}
    for site, found in judged.items():
        crossing = site in subject.crossing
        inside = not crossing and site.startswith("decoder")
        assert (found is None) == inside, site
    rows = judged[subject.speaking]["mean"]["rows"]
    assert rows[0]["attention"] == pytest.approx(look.data["faithfulness"]["rows"][0]["attention"], abs=1e-4)


def test_what_hiding_a_word_does_stands_on_the_word(masked, translated):
    look, _, subject = masked
    kept = np.array([w != subject.words[2] for w in subject.words])
    after = float(subject.predict([kept])[0, 0])
    assert look.data["without"][2] == pytest.approx(after, rel=1e-4)
    assert look.data["without"][0] is None  # [CLS] stays
    assert f"{look.data['asked']} {look.data['answer']:.4g} → {look.data['without'][2]:.4g}" in look.html()
    asked = translated[0].data["questions"][1]
    assert len(asked["without"]) == len(translated[0].data["tokens"])


def test_members_of_a_committee_are_no_layers_of_each_other(masked):
    _, _, subject = masked
    layers = subject.seen()[0]
    two = [type(m)(f"members.{i}.{m.layer}", m.weights, m.rows, m.columns) for i in (0, 1) for m in layers]
    (plain,), both = through(layers), through(two)
    assert [m.layer for m in both] == ["rollout, members.0", "rollout, members.1"]
    for one in both:
        torch.testing.assert_close(one.weights, plain.weights)


def test_evidence_is_found_by_its_words():
    text = "We loved the soup, and\nloved the  bill."
    assert spans_of(text, ["Loved"]) == [(3, 8), (23, 28)]
    assert spans_of(text, ["the bill."]) == [(29, 39)]
    with pytest.raises(UserError, match="has no 'lov'"):
        spans_of(text, ["lov"])


def test_how_much_of_the_evidence_was_found(masked):
    look = masked[0]
    weights = np.array(look.data["weights"])
    found = look.against("brown", "lazy").data
    words = {w: sum(weights[i] for i, t in enumerate(found["tokens"]) if t["word"] == w) for w in range(1, 11)}
    inside = [i for i, t in enumerate(found["tokens"]) if t["word"] in (3, 8)]
    assert found["evidence_share"] == pytest.approx(weights[inside].sum() / weights.sum())
    top = sorted(words, key=lambda w: -words[w])[:2]
    assert found["evidence_found"] == {"of": 2, "found": len({3, 8} & set(top)), "chance": pytest.approx(4 / 10)}
    html = Look(found).html()
    assert f"{100 * found['evidence_share']:.1f} %" in html
    assert "of its 2 words are among the 2 most regarded" in html
    assert compared({"tokens": []}, [(0, 1)]) == {"tokens": []}


def test_swapped_calls_take_their_turns():
    from regard.explain.interventions import Change

    subject = translation()
    given = [Change("swap", site, None, translation()) for site in subject.crossing]
    same = seen_by(subject, faithful=False, heads=False, changes=given)["changes"]
    assert all(row["after"] == pytest.approx(row["before"], abs=1e-5) for row in same)
    other = seen_by(subject, faithful=False, heads=False, changes=[Change("swap", "decoder", None, translation(1))])
    assert other["changes"][0]["after"] != pytest.approx(other["changes"][0]["before"], abs=1e-3)
    assert exact(missing())  # nothing is left behind
