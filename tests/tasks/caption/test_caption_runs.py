"""Runs of captions and of pictures' classes: trained, measured, resumed, saved and loaded; and what they refuse."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

import regard
from regard.config.messages import collect_messages
from regard.data.synthetic.scene_files import write_scenes
from regard.errors import UserError

QUIET = {"progress": False}
SMALL = {"channels": [8, 12], "dim": 16, "hidden": 24, "dropout": 0.0}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, 80, eval_count=6, size=32)
    return folder


def trained(scenes, out, *, part="train", **how):
    more = how.pop("settings", {})
    settings = {"model": SMALL, "label_smoothing": 0.0, **more, "data": {"size": 32, "batch": 16, **more.get("data", {})}}
    data = [scenes / f"{part}.zip", scenes / f"{part}.captions.tsv"]
    return regard.train("caption", data, settings=settings, out=out, **QUIET, **how)


@pytest.fixture(scope="module")
def run(scenes, tmp_path_factory):
    return trained(scenes, tmp_path_factory.mktemp("run") / "run", epochs=3, settings={"data": {"scored": 4}})


def test_a_captioner_says_something_and_shows_where(run, scenes):
    found = run.caption(scenes / "unseen.zip", maps=True)
    assert len(found) == 6
    for one in found:
        assert one.words == one.text.split()
        assert one.maps.shape == (len(one.words), 8, 8)
        np.testing.assert_allclose(one.maps.sum((1, 2)), 1, atol=1e-4)
        assert set(one.as_dict()) == {"picture", "caption", "score", "ended", "words", "maps"}
    assert {"bleu", "exact", "loss", "perplexity", "accuracy"} == set(run.metrics)
    assert run.metrics["loss"] < np.log(run.config["vocab_size"])


def test_evaluation_has_bleu_exactness_and_pointing(run, scenes):
    measured = run.evaluate(
        scenes / "unseen.zip", scenes / "unseen.captions.tsv", boxes=scenes / "unseen.boxes.tsv", beam=2
    )
    assert measured["rows"] == 6
    assert 0 < measured["pointing"] < 1
    assert measured["bleu1"] >= measured["bleu4"]
    again = run.evaluate(scenes / "unseen.zip", scenes / "unseen.captions.tsv", consensus=5)
    assert again["consensus"] == 5
    with pytest.raises(UserError, match="pictures and their captions"):
        run.evaluate(scenes / "unseen.zip")


def test_a_captioner_comes_back_as_it_was_saved(run, scenes, tmp_path):
    run.save_pretrained(tmp_path / "copy")
    again = regard.load(tmp_path / "copy")
    first, second = (r.caption(scenes / "unseen.zip") for r in (run, again))
    assert [one.text for one in first] == [one.text for one in second]


def test_the_same_seed_and_a_resumed_run_end_with_the_same_weights(scenes, tmp_path):
    changed = {"augment": {"zoom": 0.8, "light": 0.1}}
    for name in ("a", "b"):
        trained(scenes, tmp_path / name, steps=4, settings=changed)
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()
    run = trained(scenes, tmp_path / "a", steps=4, settings=changed, resume=True)  # finished already
    assert run.config["steps"] == 4


def test_the_transformer_and_the_doubly_stochastic_term_are_trained(scenes, tmp_path):
    model = {"name": "transformer", "channels": [8, 12], "dim": 16, "hidden": 24, "heads": 2}
    settings = {"model": model, "doubly": 0.5, "label_smoothing": 0.1}
    run = trained(scenes, tmp_path / "run", steps=2, settings=settings)
    assert run.caption(scenes / "unseen.zip", beam=2)[0].text is not None
    assert "doubly" in (tmp_path / "run/metrics.jsonl").read_text()


def test_a_blanked_captioner_says_the_same_of_all(run, scenes, tmp_path):
    blank = trained(scenes, tmp_path / "run", steps=2, settings={"data": {"blank": True}})
    assert len({one.text for one in blank.caption(scenes / "unseen.zip")}) == 1
    files = [scenes / "unseen.zip", scenes / "unseen.captions.tsv"]
    found = run.evaluate(*files, blank=blank.folder, beam=1)
    alone = blank.evaluate(*files, beam=1)
    assert found["blank_bleu1"] == pytest.approx(alone["bleu1"])
    assert 0 < found["commonest_bleu1"] <= 100
    with pytest.raises(UserError, match="grey pictures"):
        run.evaluate(*files, blank=run.folder)


@pytest.mark.parametrize(
    ("row", "said"),
    [("{}\t99\t0\t0\t1\t1", "word 99"), ("{}\t-1\t0\t0\t1\t1", "line 1"), ("{}\t0\t0\tnan\t1\t1", "line 1")],
)
def test_boxes_that_cannot_be_meant(run, scenes, tmp_path, row, said):
    name = run.pictures(scenes / "unseen.zip", lambda line: None).names[0]
    (tmp_path / "boxes.tsv").write_text(row.format(name))
    with pytest.raises(UserError, match=said):
        run.evaluate(scenes / "unseen.zip", scenes / "unseen.captions.tsv", boxes=tmp_path / "boxes.tsv")


def test_one_broken_picture_of_several_is_left_out(run, scenes, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    with collect_messages() as messages:
        found = run.caption([tmp_path / "broken.jpg", scenes / "unseen.zip"])
    assert len(found) == 6
    assert "left out" in " ".join(messages)
    with pytest.raises(UserError, match="no picture was given"):
        run.caption([])


def test_a_captioners_encoder_takes_any_mechanism(scenes, tmp_path):
    for name, more in (("rnn", {"positions": "relative-2d"}), ("transformer", {"image_positions": "relative-2d"})):
        model = {**SMALL, "name": name, "layers": 1, "image_mechanism": "local-2d:window=1", **more}
        model |= {"heads": 4} if name == "transformer" else {}
        run = trained(scenes, tmp_path / name, steps=1, settings={"model": model})
        assert type(run.model.image_encoder.layers[0].attention.mechanism).__name__ == "Local2dMechanism"
        assert run.model.image_encoder.positions.name == "relative-2d"


def test_bad_pictures_are_told_and_left_out(scenes, tmp_path):
    good = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(good, "PNG")
    (tmp_path / "p").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "p" / f"{name}.png").write_bytes(good.getvalue())
    (tmp_path / "p" / "broken.png").write_bytes(b"nothing")
    table = "".join(f"{name}.png\tred all over\n" for name in ("a", "b", "c", "broken", "gone")) + "a.png\t\n"
    (tmp_path / "c.tsv").write_text(table)
    settings = {"model": SMALL, "data": {"size": 32}}
    files = [tmp_path / "p", tmp_path / "c.tsv"]
    how = {"steps": 1, "settings": settings, "out": tmp_path / "run", "progress": False}
    with collect_messages() as messages:
        run = regard.train("caption", files, **how)
    text = "\n".join(messages)
    for part in (
        "broken and left out: broken.png",
        "no picture and are left out: gone.png",
        "empty and left out: a.png",
    ):
        assert part in text
    assert run.config["data"]["train"]["rows"] + run.config["data"]["valid"]["rows"] == 3
    with pytest.raises(UserError, match="no picture of"):
        run.caption(tmp_path / "p" / "broken.png")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"data": {"size": 4}}, "data.size"),
        ({"data": {"batch": 0}}, "data.batch"),
        ({"augment": {"zoom": 2}}, "augment.zoom"),
        ({"augment": {"turn": 2}}, "unknown setting"),
        ({"augment": 3}, "augment wants"),
        ({"doubly": -1}, "doubly"),
        ({"label_smoothing": 1}, "smoothing"),
        ({"model": {"channels": []}}, "channels"),
        ({"model": {"cell": "foo"}}, "cell"),
        ({"model": {"positions": "rotary"}}, "layers = 0"),
        ({"model": {"mechanism": "synthesizer-dense"}}, "cannot look"),
        ({"data": {"valid": ["one"]}}, "1 names"),
    ],
)
def test_settings_that_cannot_be_meant(scenes, tmp_path, settings, said):
    with pytest.raises(UserError, match=said):
        trained(scenes, tmp_path / "run", steps=1, settings=settings)


# Classes of pictures


@pytest.fixture(scope="module")
def sorted_pictures(tmp_path_factory):
    """Stripes and blots: 24 of each."""
    folder, random = tmp_path_factory.mktemp("sorted"), np.random.default_rng(0)
    for label in ("stripes", "blots"):
        (folder / "p" / label).mkdir(parents=True)
        for i in range(24):
            values = random.integers(0, 60, (32, 32, 3))
            if label == "stripes":
                values[(np.arange(32) + random.integers(8)) // 4 % 2 == 0] += 150
            else:
                y, x = random.integers(0, 20, 2)
                values[y : y + 12, x : x + 12] += 150
            Image.fromarray(values.astype(np.uint8)).save(folder / "p" / label / f"{i}.png")
    return folder / "p"


@pytest.mark.parametrize("mechanism", ["dot", "local-2d:window=2"])
def test_pictures_are_told_apart_and_runs_come_back(sorted_pictures, tmp_path, mechanism):
    model = {"channels": [8, 12], "dim": 16, "heads": 2, "mechanism": mechanism, "dropout": 0.0}
    settings = {"model": model, "data": {"size": 32, "batch": 16, "valid_fraction": 0.25}, "train": {"lr": 0.01}}
    run = regard.train("images", sorted_pictures, settings=settings, epochs=12, out=tmp_path / "run", **QUIET)
    assert run.metrics["accuracy"] >= 0.9
    again = regard.load(tmp_path / "run")
    one = sorted_pictures / "blots" / "3.png"
    assert again.predict(one).probabilities == run.predict(one).probabilities
    measured = again.evaluate(sorted_pictures)
    assert measured["rows"] == 48
    assert measured["most_frequent"] == 0.5
    assert set(measured["classes"]) == {"stripes", "blots"}
    with pytest.raises(UserError, match="holds 48 pictures"):
        again.predict(sorted_pictures)
