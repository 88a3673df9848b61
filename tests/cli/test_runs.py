"""What becomes of run folders: started wrongly, killed early, moved, overwritten, classifier_run by two processes."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import write_reviews

import regard
from regard.attention.mechanisms import MECHANISMS
from regard.config.owned_folders import claim_folder
from regard.explain.explainer import Explainer

TRAIN = "train classify reviews.csv --steps 2 --quiet"
QUIET = {"progress": False}


@pytest.mark.parametrize(
    "slip",
    [
        "--optimizer sgdd",
        "--strategy dpp",
        "--precision 31",
        "--set train.decay=cosin",
        "--set train.warmup=2",
        "--set model.dropout=2",
        "--set data.max_tokens=0",
    ],
)
def test_a_slip_leaves_the_folder_free(slip, cli):
    assert cli(*shlex.split(f"{TRAIN} --out run {slip}"))[0] == 2
    code, _, err = cli(*shlex.split(f"{TRAIN} --out run"))
    assert code == 0, err


@pytest.mark.parametrize("model", ["han", "tfidf"])
def test_what_an_early_kill_leaves_is_no_hindrance(model, cli, tmp_path):
    claim_folder(tmp_path / "run", "run")
    for name in ("tokenizer.json", "tokenizer.json.tmp", "config.json.tmp"):
        (tmp_path / "run" / name).write_text("{")
    code, _, err = cli(*shlex.split(f"{TRAIN} --model {model} --out run --resume"))
    assert code == 0, err
    assert regard.load("run").predict("We loved it.").label in ("positive", "negative")


def test_a_bag_that_was_killed_resumes(cli, tmp_path):
    assert cli(*shlex.split(f"{TRAIN} --model tfidf --out run"))[0] == 0
    whole = (tmp_path / "run/model.safetensors").read_bytes()
    config = json.loads((tmp_path / "run/config.json").read_text())
    del config["finished"], config["metrics"]
    (tmp_path / "run/config.json").write_text(json.dumps(config))
    (tmp_path / "run/model.safetensors").unlink()
    code, _, err = cli("train", "classify", "--resume", "--out", "run")
    assert code == 0, err
    assert (tmp_path / "run/model.safetensors").read_bytes() == whole
    assert json.loads((tmp_path / "run/config.json").read_text())["finished"]


def test_overwrite_takes_runs_only(cli, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/README.md").write_text("years of work")
    code, _, err = cli(*shlex.split(f"{TRAIN} --out mine --overwrite"))
    assert code == 2
    assert "not a run" in err
    assert (tmp_path / "mine/README.md").read_text() == "years of work"
    assert cli(*shlex.split(f"{TRAIN} --out run"))[0] == 0
    assert cli(*shlex.split(f"{TRAIN} --out run --overwrite --seed 1"))[0] == 0
    assert json.loads((tmp_path / "run/config.json").read_text())["settings"]["seed"] == 1


def unfinished(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    del config["finished"]
    (folder / "config.json").write_text(json.dumps(config))


def test_a_run_resumes_where_its_data_were_moved_to(cli, tmp_path):
    assert cli(*shlex.split(f"{TRAIN} --out run"))[0] == 0
    unfinished(tmp_path / "run")
    (tmp_path / "reviews.csv").rename(tmp_path / "moved.csv")
    code, _, err = cli("train", "classify", "--resume", "--out", "run")
    assert code == 2
    assert "no such file" in err
    code, _, err = cli("train", "classify", "moved.csv", "--resume", "--out", "run")
    assert code == 0, err
    unfinished(tmp_path / "run")
    write_reviews(tmp_path / "moved.csv", 61)
    code, _, err = cli("train", "classify", "moved.csv", "--resume", "--out", "run")
    assert code == 2
    assert "changed" in err


def test_auto_precision_is_chosen_once(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_PRECISION", "32-true")
    command = shlex.split(f"{TRAIN} --out run --precision auto")
    assert cli(*command)[0] == 0
    assert json.loads((tmp_path / "run/config.json").read_text())["settings"]["train"]["precision"] == "32"
    unfinished(tmp_path / "run")
    monkeypatch.setenv("REGARD_PRECISION", "bf16-mixed")  # the machine changed its mind
    code, _, err = cli(*command, "--resume")
    assert code == 0, err


def test_settings_for_another_task_are_refused(cli, tmp_path):
    (tmp_path / "s.yaml").write_text("task: translate\n")
    code, _, err = cli(*shlex.split(f"{TRAIN} --config s.yaml"))
    assert code == 2
    assert "'translate'" in err


def test_gaps_in_the_validation_file_are_counted(cli, tmp_path):
    (tmp_path / "valid.csv").write_text("review,sentiment\nfine,positive\n,negative\ndull,negative\n")
    code, out, err = cli(*shlex.split("train classify reviews.csv --valid valid.csv --steps 1 --out run"))
    assert code == 0, err
    assert "validation: skipped 1 of 3 rows: empty text" in out


def test_predictions_stand_a_line_each(cli, classifier_run, tmp_path, monkeypatch):
    (tmp_path / "new.csv").write_text('review\n"two\nlines\tand a tab"\n"one"\n')
    code, out, _ = cli("predict", str(classifier_run), "--file", "new.csv")
    assert code == 0
    assert [line.split("\t")[2] for line in out.splitlines()] == ["two lines and a tab", "one"]
    for said in ([], ["-"], ["--file", "-"]):
        code, out, _ = cli("predict", str(classifier_run), *said, "--json", stdin="\ufeffdull\r\n\r\nfine\r\n")
        assert [json.loads(line)["text"] for line in out.splitlines()] == ["dull", "fine"]


def test_the_name_of_a_file_is_no_text(cli, classifier_run, image_runs, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/0.txt").write_text("We loved the room.\n\nThe soup was cold.\n")
    run = str(classifier_run)
    for verb in ("look", "predict"):
        code, _, err = cli(verb, run, "docs/0.txt")
        assert code == 2
        assert "docs/0.txt is a file; its name was not read as a text: use --file" in err
        code, _, err = cli(verb, run, "./docs")
        assert code == 2
        assert "./docs is a folder" in err
    assert cli("predict", run, "docs")[0] == 0  # a plain word
    code, out, _ = cli("look", run, "--file", "docs/0.txt", "--no-faithful", "--json")
    assert code == 0
    assert json.loads(out)["text"] == "We loved the room.\n\nThe soup was cold."
    pictures = str(image_runs / "images-run")
    photo = str(image_runs / "photo.png")
    assert cli("predict", pictures, photo)[0] == 0
    for words in ((photo,), ("--file", photo)):
        assert cli("look", pictures, *words, "--no-faithful", "--json")[0] == 0


def test_look_wants_a_text_or_a_file(cli, classifier_run, tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    for words, said in (
        ((), "give a text, or --file FILE"),
        (("dull", "--file", "latin.txt"), "give a text or --file, not both"),
        (("--file", "latin.txt"), "latin.txt is not valid UTF-8"),
        (("--file", "latn.txt"), "did you mean 'latin.txt'"),
    ):
        code, _, err = cli("look", str(classifier_run), *words)
        assert code == 2
        assert said in err


def test_predictions_of_a_folder_name_its_files(cli, classifier_run, tmp_path):
    for name, text in (("good/1.txt", "We loved\nit."), ("bad/2  b.txt", "It was dull."), ("bad/x.html", "dull")):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(text)
    code, out, err = cli("predict", str(classifier_run), "--file", "docs")
    assert code == 0
    assert [line.split("\t")[2:] for line in out.splitlines()] == [
        ["bad/2 b.txt", "It was dull."],
        ["good/1.txt", "We loved it."],
    ]
    assert "skipped 1 files that are not text: .html" in err
    _, out, _ = cli("predict", str(classifier_run), "--file", "docs", "--json")
    said = [json.loads(line) for line in out.splitlines()]
    assert [line["name"] for line in said] == ["bad/2  b.txt", "good/1.txt"]
    _, out, _ = cli("predict", str(classifier_run), "--file", "docs/good/1.txt", "--json")
    assert all("name" not in json.loads(line) for line in out.splitlines())


def test_text_that_is_not_utf8(cli, classifier_run, monkeypatch):
    code, _, err = cli("predict", str(classifier_run), "caf\udce9")
    assert code == 2
    assert "UTF-8" in err
    assert cli("look", str(classifier_run), "caf\udce9")[0] == 2
    stdin = io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"))
    monkeypatch.setattr(sys, "stdin", stdin)
    code, _, err = cli("predict", str(classifier_run))
    assert code == 2
    assert "standard input is not valid UTF-8" in err


def test_half_a_character_in_json_lines(cli, classifier_run, tmp_path):
    (tmp_path / "new.jsonl").write_text('{"review": "fine \\ud83d film"}\n')
    code, out, err = cli("predict", str(classifier_run), "--file", "new.jsonl", "--json")
    assert code == 0, err
    assert json.loads(out)["text"] == "fine ? film"


def test_a_mechanism_of_the_users_own_is_used_after_training(cli, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from regard.attention.mechanisms.dot import DotMechanism\n\n\nclass Mine(DotMechanism):\n    name = 'my_own'\n"
    )

    def as_a_new_process(*words: str) -> int:
        MECHANISMS.unregister("my_own")
        return cli(*words, "--import", "mine.py")[0]

    command = f"{TRAIN} --model transformer --mechanism my_own --set model.dim=16 --set model.layers=1 --out run"
    assert as_a_new_process(*shlex.split(command)) == 0
    for words in (("predict", "run", "fine"), ("evaluate", "run", "reviews.csv"), ("look", "run", "fine film")):
        assert as_a_new_process(*words) == 0
    MECHANISMS.unregister("my_own")
    assert cli("predict", "run", "fine")[0] == 2


def test_a_long_text_is_measured_in_parts(classifier_run, monkeypatch):
    run, text = regard.load(classifier_run), "We loved the room. The soup was cold. " * 5
    whole = run.look(text).data["faithfulness"]["metrics"]
    monkeypatch.setattr(Explainer, "batch_tokens", 100)
    for a, b in zip(whole, run.look(text).data["faithfulness"]["metrics"], strict=True):
        assert a["attention"] == pytest.approx(b["attention"], abs=1e-5)
        assert a["random"] == pytest.approx(b["random"], abs=1e-5)


@pytest.mark.slow
def test_two_processes_write_one_run(tmp_path):
    """The command line with two processes: one folder, one JSON line, and the losses of one process."""
    write_reviews(tmp_path / "reviews.csv")
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK")}
    environment = {**clean, "PYTHONPATH": str(Path(regard.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = shlex.split(
        "train classify reviews.csv --steps 3 --set model.dropout=0 --json --num-devices 2 --strategy ddp"
    )
    done = subprocess.run(
        [sys.executable, "-m", "regard.cli", *command],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [p.name for p in (tmp_path / "runs").iterdir()] == ["reviews-han"]
    same = {"settings": {"model": {"dropout": 0.0}}, "steps": 3, **QUIET}
    one = regard.train("classify", tmp_path / "reviews.csv", out=tmp_path / "one", **same)
    assert said["metrics"]["loss"] == pytest.approx(one.metrics["loss"], abs=1e-5)

    def losses(folder: Path) -> list[float]:
        lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        return [line["loss"] for line in lines if "loss" in line]

    assert losses(tmp_path / "runs/reviews-han") == pytest.approx(losses(tmp_path / "one"), abs=1e-5)
