"""Captioners and image classifiers are trained, evaluated, resumed, saved and loaded; invalid input is an error."""

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


def train_captioner(scenes, out, *, part="train", **options):
    extra = options.pop("settings", {})
    data = {"size": 32, "batch": 16, **extra.get("data", {})}
    settings = {"model": SMALL, "label_smoothing": 0.0, **extra, "data": data}
    data = [scenes / f"{part}.zip", scenes / f"{part}.captions.tsv"]
    return regard.train("caption", data, settings=settings, out=out, **QUIET, **options)


@pytest.fixture(scope="module")
def run(scenes, tmp_path_factory):
    return train_captioner(
        scenes, tmp_path_factory.mktemp("run") / "run", epochs=3, settings={"data": {"bleu_images": 4}}
    )


def test_captions_have_attention_maps(run, scenes):
    captions = run.caption(scenes / "unseen.zip", maps=True)
    assert len(captions) == 6
    for caption in captions:
        assert caption.words == caption.text.split()
        assert caption.maps.shape == (len(caption.words), 8, 8)
        np.testing.assert_allclose(caption.maps.sum((1, 2)), 1, atol=1e-4)
        assert set(caption.as_dict()) == {"image", "caption", "score", "ended", "words", "maps"}
    assert {"bleu", "exact", "loss", "perplexity", "accuracy"} == set(run.metrics)
    assert run.metrics["loss"] < np.log(run.config["vocab_size"])


def test_evaluation_measures_bleu_exact_match_and_pointing(run, scenes):
    metrics = run.evaluate(
        scenes / "unseen.zip", scenes / "unseen.captions.tsv", boxes=scenes / "unseen.boxes.tsv", beam=2
    )
    assert metrics["rows"] == 6
    assert 0 < metrics["pointing"] < 1
    assert metrics["bleu1"] >= metrics["bleu4"]
    metrics = run.evaluate(scenes / "unseen.zip", scenes / "unseen.captions.tsv", consensus=5)
    assert metrics["consensus"] == 5
    with pytest.raises(UserError, match="images and their captions"):
        run.evaluate(scenes / "unseen.zip")


def test_saved_and_loaded_captioner_gives_the_same_captions(run, scenes, tmp_path):
    run.save_pretrained(tmp_path / "copy")
    loaded = regard.load(tmp_path / "copy")
    first, second = (r.caption(scenes / "unseen.zip") for r in (run, loaded))
    assert [caption.text for caption in first] == [caption.text for caption in second]


def test_same_seed_gives_the_same_weights_and_a_finished_run_can_be_resumed(scenes, tmp_path):
    settings = {"augment": {"zoom": 0.8, "light": 0.1}}
    for name in ("a", "b"):
        train_captioner(scenes, tmp_path / name, steps=4, settings=settings)
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()
    run = train_captioner(scenes, tmp_path / "a", steps=4, settings=settings, resume=True)  # already finished
    assert run.config["steps"] == 4


def test_transformer_with_doubly_stochastic_attention(scenes, tmp_path):
    model = {"name": "transformer", "channels": [8, 12], "dim": 16, "hidden": 24, "heads": 2}
    settings = {"model": model, "doubly_stochastic": 0.5, "label_smoothing": 0.1}
    run = train_captioner(scenes, tmp_path / "run", steps=2, settings=settings)
    assert run.caption(scenes / "unseen.zip", beam=2)[0].text is not None
    assert "doubly_stochastic" in (tmp_path / "run/metrics.jsonl").read_text()


def test_captioner_without_images_gives_the_same_caption_for_all(run, scenes, tmp_path):
    blank = train_captioner(scenes, tmp_path / "run", steps=2, settings={"data": {"blank": True}})
    assert len({caption.text for caption in blank.caption(scenes / "unseen.zip")}) == 1
    files = [scenes / "unseen.zip", scenes / "unseen.captions.tsv"]
    metrics = run.evaluate(*files, blank=blank.folder, beam=1)
    blank_metrics = blank.evaluate(*files, beam=1)
    assert metrics["blank_bleu1"] == pytest.approx(blank_metrics["bleu1"])
    assert 0 < metrics["most_frequent_bleu1"] <= 100
    with pytest.raises(UserError, match="gray images"):
        run.evaluate(*files, blank=run.folder)


@pytest.mark.parametrize(
    ("row", "message"),
    [("{}\t99\t0\t0\t1\t1", "word 99"), ("{}\t-1\t0\t0\t1\t1", "line 1"), ("{}\t0\t0\tnan\t1\t1", "line 1")],
)
def test_invalid_boxes_are_errors(run, scenes, tmp_path, row, message):
    name = run.read_images(scenes / "unseen.zip").names[0]
    (tmp_path / "boxes.tsv").write_text(row.format(name))
    with pytest.raises(UserError, match=message):
        run.evaluate(scenes / "unseen.zip", scenes / "unseen.captions.tsv", boxes=tmp_path / "boxes.tsv")


def test_one_damaged_image_is_skipped(run, scenes, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"not an image")
    with collect_messages() as messages:
        captions = run.caption([tmp_path / "broken.jpg", scenes / "unseen.zip"])
    assert len(captions) == 6
    assert "skipped" in " ".join(messages)
    with pytest.raises(UserError, match="no images; pass"):
        run.caption([])


def test_image_encoder_of_a_captioner_supports_mechanisms_and_positions(scenes, tmp_path):
    for name, options in (("rnn", {"positions": "relative-2d"}), ("transformer", {"image_positions": "relative-2d"})):
        model = {**SMALL, "name": name, "layers": 1, "image_mechanism": "local-2d:window=1", **options}
        model |= {"heads": 4} if name == "transformer" else {}
        run = train_captioner(scenes, tmp_path / name, steps=1, settings={"model": model})
        assert type(run.model.image_encoder.layers[0].attention.mechanism).__name__ == "Local2dMechanism"
        assert run.model.image_encoder.positions.name == "relative-2d"


def test_damaged_images_and_captions_are_reported_and_skipped(scenes, tmp_path):
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
    options = {"steps": 1, "settings": settings, "out": tmp_path / "run", "progress": False}
    with collect_messages() as messages:
        run = regard.train("caption", files, **options)
    text = "\n".join(messages)
    for part in (
        "damaged and are skipped: broken.png",
        "no image and are skipped: gone.png",
        "empty and are skipped: a.png",
    ):
        assert part in text
    assert run.config["data"]["train"]["rows"] + run.config["data"]["valid"]["rows"] == 3
    with pytest.raises(UserError, match="no image of"):
        run.caption(tmp_path / "p" / "broken.png")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data": {"size": 4}}, "data.size"),
        ({"data": {"batch": 0}}, "data.batch"),
        ({"augment": {"zoom": 2}}, "augment.zoom"),
        ({"augment": {"turn": 2}}, "unknown setting"),
        ({"augment": 3}, "augment must be a mapping"),
        ({"doubly_stochastic": -1}, "doubly_stochastic"),
        ({"label_smoothing": 1}, "smoothing"),
        ({"model": {"channels": []}}, "channels"),
        ({"model": {"cell": "foo"}}, "cell"),
        ({"model": {"positions": "rotary"}}, "layers = 0"),
        ({"model": {"mechanism": "synthesizer-dense"}}, "does not support cross-attention to an image"),
        ({"data": {"valid": ["one"]}}, "got 1 files"),
    ],
)
def test_invalid_settings_are_errors(scenes, tmp_path, settings, message):
    with pytest.raises(UserError, match=message):
        train_captioner(scenes, tmp_path / "run", steps=1, settings=settings)


# Image classification


@pytest.fixture(scope="module")
def labeled_images(tmp_path_factory):
    """24 images of stripes and 24 of blots."""
    folder, rng = tmp_path_factory.mktemp("sorted"), np.random.default_rng(0)
    for label in ("stripes", "blots"):
        (folder / "p" / label).mkdir(parents=True)
        for i in range(24):
            values = rng.integers(0, 60, (32, 32, 3))
            if label == "stripes":
                values[(np.arange(32) + rng.integers(8)) // 4 % 2 == 0] += 150
            else:
                y, x = rng.integers(0, 20, 2)
                values[y : y + 12, x : x + 12] += 150
            Image.fromarray(values.astype(np.uint8)).save(folder / "p" / label / f"{i}.png")
    return folder / "p"


@pytest.mark.parametrize("mechanism", ["dot", "local-2d:window=2"])
def test_image_classifier_learns_and_is_loaded(labeled_images, tmp_path, mechanism):
    model = {"channels": [8, 12], "dim": 16, "heads": 2, "mechanism": mechanism, "dropout": 0.0}
    settings = {"model": model, "data": {"size": 32, "batch": 16, "valid_fraction": 0.25}, "train": {"lr": 0.01}}
    run = regard.train("images", labeled_images, settings=settings, epochs=12, out=tmp_path / "run", **QUIET)
    assert run.metrics["accuracy"] >= 0.9
    loaded = regard.load(tmp_path / "run")
    file = labeled_images / "blots" / "3.png"
    assert loaded.predict(file).probabilities == run.predict(file).probabilities
    metrics = loaded.evaluate(labeled_images)
    assert metrics["rows"] == 48
    assert metrics["most_frequent"] == 0.5
    assert set(metrics["classes"]) == {"stripes", "blots"}
    with pytest.raises(UserError, match="contains 48 images"):
        loaded.predict(labeled_images)
