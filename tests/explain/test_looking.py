"""The data of a look, for words and pairs: pictures, measures, changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_subjects import missing, translation

from regard.errors import UserError
from regard.explain.build import seen_by
from regard.explain.interventions import parse
from regard.inspect import ablate, edit, rollout

FOUR = ["comprehensiveness", "sufficiency", "leave-one-out", "gradients"]


def test_the_picture_of_a_missing_word_is_its_row_of_the_rollout(masked):
    look, exact, subject = masked
    whole = rollout([torch.from_numpy(w) for w in exact.values()])[-1]
    assert look.data["weights"] == pytest.approx(whole[subject.place].tolist(), abs=1e-6)
    assert [row["measure"] for row in look.data["faithfulness"]["rows"]] == FOUR
    chances = look.data["prediction"]["probabilities"]
    assert look.data["prediction"]["label"] == max(chances, key=chances.get)
    assert subject.whole()[0] == pytest.approx(np.log(chances[look.data["prediction"]["label"]]), abs=1e-5)


def test_hidden_words_are_gone_from_the_input():
    subject = missing()
    kept = np.ones(len(subject.tokens), bool)
    kept[2:4] = False
    ids = subject.ids[torch.from_numpy(kept)]
    with torch.no_grad():
        said = subject.net(ids[None])[0][0, subject.place - 2].log_softmax(-1)
    assert subject.predict([kept])[0, 0] == pytest.approx(float(said[subject.target]), abs=1e-5)


def test_all_words_of_a_translation_are_asked_in_one_pass():
    subject = translation()
    whole = subject.whole()
    target = torch.tensor([[subject.begin, *subject.target.ids[:-1]]])
    with torch.no_grad():
        logits = subject.net(torch.tensor([subject.source.ids]), target)[0].log_softmax(-1)
    said = logits.gather(-1, torch.tensor(subject.target.ids)[:, None])[:, 0]
    assert subject.labels == ["a", "burning", "red", "house"]
    assert whole == pytest.approx([float(said[g].sum()) for g in subject.groups], abs=1e-5)
    kept = np.ones(len(subject.tokens), bool)
    kept[1] = False
    with torch.no_grad():
        less = torch.tensor([subject.source.ids[:1] + subject.source.ids[2:]])
        logits = subject.net(less, target)[0].log_softmax(-1)
    said = logits.gather(-1, torch.tensor(subject.target.ids)[:, None])[:, 0]
    assert subject.predict([kept])[0] == pytest.approx([float(said[g].sum()) for g in subject.groups], abs=1e-5)
    assert all(word == -1 for word in subject.words[subject.m :])


def test_a_translation_has_figures_for_each_word(translated):
    look, _, subject = translated
    assert [q["label"] for q in look.data["questions"]] == subject.labels
    for question in look.data["questions"]:
        assert [row["measure"] for row in question["faithfulness"]["rows"]] == FOUR
        assert sum(question["weights"]) == pytest.approx(1, abs=1e-5)
    assert {(m["rows"], m["columns"]) for m in look.data["maps"]} == {
        ("source", "source"),
        ("target", "before"),
        ("target", "source"),
    }
    assert (
        "Of 4 words" in look.data["faithfulness"]["sentence"] or "For no word" in look.data["faithfulness"]["sentence"]
    )


def test_changes_say_what_the_edit_does():
    subject, other = missing(0), missing(1)
    specs = ["hide:brown", "hide:#0", "ablate:layers.1:0,2", "uniform:layers.0", "ablate:all"]
    changes = [parse(spec) for spec in specs] + [parse("swap:there:layers.0:1", lambda folder: other)]
    before = float(subject.whole()[0])
    made = seen_by(subject, faithful=False, heads=False, changes=changes)["changes"]
    assert len(made) == len(changes) + 1
    assert made[-1]["what"] == "all of these together"
    assert all(one["before"] == pytest.approx(before) for one in made)
    with edit(subject.net, "layers.1.attention.attend", ablate([0, 2])):
        assert made[2]["after"] == pytest.approx(float(subject.whole()[0]), abs=1e-6)
    kept = np.array([subject.text[t["start"] : t["end"]] not in ("bro", "wn") for t in subject.tokens])
    assert kept.sum() == len(kept) - 2
    assert made[0]["after"] == pytest.approx(subject.predict([kept])[0, 0], abs=1e-6)
    assert made[5]["after"] != pytest.approx(before, abs=1e-4)
    assert float(subject.whole()[0]) == pytest.approx(before, abs=1e-7)  # nothing stays


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("hide:browm", "did you mean 'brown'"),
        ("hide:#99", "words #0 to #"),
        ("ablate:layers.9", "no attention at"),
        ("ablate:layers.0:7", "heads 0 to 3"),
        ("ablate:layers.0:x", "heads are numbers"),
        ("burn:layers.0", "a change is written"),
        ("swap:layers.0", "swap:RUN:SITE"),
    ],
)
def test_changes_that_cannot_be_are_told(spec, words):
    with pytest.raises(UserError, match=words):
        seen_by(missing(), faithful=False, heads=False, changes=[parse(spec)])


def test_heads_that_matter_on_a_text(masked):
    look, _, subject = masked
    before = float(subject.whole()[0])
    rows = {(r["site"], r["head"], r["how"]): r["change"] for r in look.data["heads"]}
    with edit(subject.net, "layers.2.attention.attend", ablate([1])):
        after = float(subject.whole()[0])
    assert rows["layers.2.attention.attend", 1, "ablate"] == pytest.approx(after - before, abs=1e-6)
    assert len(rows) == 3 * (4 + 2)


def test_saved_numbers(masked, tmp_path):
    import csv
    import json

    look, exact, _ = masked
    told = json.loads(look.save(tmp_path / "look.json").read_text())
    assert told["weights"] == look.data["weights"]
    rows = list(csv.DictReader((look.save(tmp_path / "look.csv")).open()))
    assert [float(row["weight"]) for row in rows] == look.data["weights"]
    for site, weights in exact.items():
        np.testing.assert_allclose(look.maps()[site], weights, atol=weights.max() / 510 + 1e-6)
