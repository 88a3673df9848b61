"""`regard train caption`, `caption`, `scenes`, and image classes through `train classify`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

from conftest import write_images


def test_scenes_are_written_the_same_again(cli, tmp_path):
    for name in ("a", "b"):
        code, out, err = cli(
            "data",
            "generate",
            "scenes",
            "--count",
            "5",
            "--eval-count",
            "3",
            "--size",
            "32",
            "--seed",
            "4",
            "--out",
            name,
        )
        assert code == 0, err
    assert "5 training scenes" in out
    for file in ("train.zip", "unseen.captions.tsv", "valid.boxes.tsv"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert len((tmp_path / "a" / "unseen.captions.tsv").read_text().splitlines()) == 3


def test_caption_writes_maps_and_a_page(cli, image_runs, tmp_path):
    write_images(tmp_path)
    run = str(image_runs / "scenes")
    code, out, err = cli("caption", run, "photo.png", "--out", "maps.json", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["image"] == "photo.png"
    assert json.loads((tmp_path / "maps.json").read_text()) == [result]
    assert all(abs(sum(map(sum, map_)) - 1) < 1e-3 for map_ in result["maps"])
    code, out, err = cli("caption", run, "photo.png", "--out", "look.html")
    assert code == 0, err
    page = (tmp_path / "look.html").read_text()
    assert "data:image/jpeg" in page
    assert "Is the map a faithful explanation?" in page
    assert set(result["faithfulness"]) == {"all", "words"}
    assert len(result["faithfulness"]["words"]) == len(result["words"])
    code, out, err = cli("caption", run, "photo.png", "--out", "plain.html", "--no-faithful")
    assert "Is the map a faithful explanation?" not in (tmp_path / "plain.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    code, out, _ = cli("caption", run, "unseen.zip", "photo.png")
    assert len(out.splitlines()) == 5


def test_caption_errors(cli, image_runs, tmp_path):
    write_images(tmp_path)
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 and no more")
    run = str(image_runs / "scenes")
    for arguments, message in (
        (("caption", run, "broken.jpg"), "broken"),
        (("caption", run, "gone.jpg"), "no such folder, zip or image"),
        (("caption", run, "photo.png", "--out", "look.txt"), ".html"),
        (("caption", str(image_runs / "images-run"), "photo.png"), "cannot caption"),
        (("train", "caption", "train.zip"), "IMAGES CAPTIONS"),
        (("train", "caption", "train.zip", "gone.tsv"), "no such caption file"),
        (("evaluate", run, "unseen.zip", "unseen.captions.tsv", "--stride", "3"), "--stride"),
    ):
        code, _, err = cli(*arguments)
        assert code == 2, arguments
        assert message in err, err


def test_evaluate_with_boxes(cli, image_runs, tmp_path):
    write_images(tmp_path)
    arguments = (
        "evaluate",
        str(image_runs / "scenes"),
        "unseen.zip",
        "unseen.captions.tsv",
        "--boxes",
        "unseen.boxes.tsv",
    )
    code, out, err = cli(*arguments, "--json")
    assert code == 0, err
    assert 0 < json.loads(out)["pointing"] < 1


def test_classify_a_folder_of_images(cli, image_runs, tmp_path):
    write_images(tmp_path)
    small = ["--set", "model.channels=[8]", "--set", "model.dim=16", "--set", "data.size=32"]
    code, out, err = cli("train", "classify", "images", "--steps", "2", "--out", "run", "-q", "--json", *small)
    assert code == 0, err
    assert set(json.loads(out)["labels"]) == {"even", "odd"}
    code, out, err = cli("predict", "run", "photo.png", "--json")
    assert code == 0, err
    assert json.loads(out)["label"] in ("even", "odd")
    assert cli("train", "classify", "--resume", "--out", "run")[0] == 0
    code, out, err = cli("evaluate", "run", "images", "--json")
    assert json.loads(out)["rows"] == 24
    code, _, err = cli("train", "classify", "images", "--text", "review")
    assert code == 2
    assert "--text" in err
    shutil.rmtree(tmp_path / "images" / "odd")
    code, _, err = cli("train", "classify", "images", "--out", "other")
    assert code == 2
    assert "two classes" in err


def test_look_at_images(cli, image_runs, tmp_path):
    write_images(tmp_path)
    run = str(image_runs / "images-run")
    code, out, err = cli("look", run, "photo.png", "--what-if", "hide:1,2", "--out", "look.html")
    assert code == 0, err
    assert "without “1,2”" in out
    assert "On this input attention" in out
    assert 'data-side="0"' in (tmp_path / "look.html").read_text()
    code, out, err = cli("look", run, "photo.png", "--label", "odd", "--json", "--no-faithful")
    assert json.loads(out)["prediction"]["label"] == "odd"
    code, out, err = cli("look", run, "photo.png", "--beside", run, "--out", "two.html")
    assert code == 0, err
    code, out, err = cli("look", str(image_runs / "scenes"), "photo.png", "--out", "look.svg")
    assert code == 0, err
    assert "<image" in (tmp_path / "look.svg").read_text()
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 and no more")
    for arguments, message in (
        (("look", run, "broken.jpg"), "broken"),
        (("look", run, "unseen.zip"), "look takes one image at a time"),
        (("look", run, "photo.png", "--label", "old"), "'odd'"),
        (("look", run, "photo.png", "--what-if", "hide:9,99"), "9,99"),
        (("look", str(image_runs / "scenes"), "photo.png", "--label", "odd"), "--label"),
    ):
        code, _, err = cli(*arguments)
        assert code == 2, arguments
        assert message in err, err


def test_heads_of_image_models(cli, image_runs, tmp_path):
    write_images(tmp_path)
    code, out, err = cli("heads", str(image_runs / "images-run"), "images", "--rows", "10", "--json")
    assert code == 0, err
    report = json.loads(out)
    assert {"image_encoder.layers.0.attention.attend", "pool.attend"} <= {row["layer"] for row in report["rows"]}
    assert 0 <= report["baseline"]["accuracy"] <= 1
    code, out, err = cli("heads", str(image_runs / "scenes"), "unseen.zip", "unseen.captions.tsv", "--json")
    assert code == 0, err
    assert json.loads(out)["baseline"]["loss"] > 0
    assert cli("heads", str(image_runs / "scenes"), "unseen.zip")[0] == 2


def test_regard_train_classify_points_image_folders_to_train_images(cli, tmp_path):
    import pytest

    import regard
    from regard.errors import UserError

    write_images(tmp_path)
    with pytest.raises(UserError, match="regard train images"):
        regard.train("classify", tmp_path / "images", steps=1, out=tmp_path / "run", progress=False)


def test_image_runs_are_not_served(image_runs):
    """An image run reads files by name, so it is not served."""
    for name in ("scenes", "images-run"):
        command = [sys.executable, "-m", "regard.serve.worker", str(image_runs / name)]
        done = subprocess.run(command, input=b"", capture_output=True, timeout=120)
        assert done.returncode == 2, done.stderr
        assert b"cannot be served" in done.stdout
