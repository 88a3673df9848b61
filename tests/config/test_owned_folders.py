"""Nothing is removed or replaced that regard did not write, and two processes do not write to one folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.config.owned_folders import MARKER, claim_folder, lock_output, owned_kind, remove_files
from regard.errors import UserError
from regard.tasks.output_folder import RUN_FILES

ROWS = "text,label\n" + "".join(f"good film number {i},pos\nbad film number {i},neg\n" for i in range(20))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def write(path: Path, text: str = "mine") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("folder", ["parts", "generated", "runs", "."])
def test_compare_refuses_a_folder_of_the_user(in_tmp, folder):
    data = write(in_tmp / "exp" / folder / "train.csv", ROWS)
    before = snapshot(in_tmp)
    with pytest.raises(UserError, match="not empty"):
        regard.compare("classify", data, models="nb-svm", seeds=1, budget="2steps", out=in_tmp / "exp", progress=False)
    assert snapshot(in_tmp) == before


@pytest.mark.parametrize("folder", ["corpus", "logs", "state", "."])
@pytest.mark.parametrize("overwrite", [False, True])
def test_train_refuses_a_folder_of_the_user(in_tmp, folder, overwrite):
    text = write(in_tmp / "project" / folder / "book.txt", "a b c d e f g.\n" * 200)
    before = snapshot(in_tmp)
    with pytest.raises(UserError, match="not empty"):
        regard.train("language", [text], out=in_tmp / "project", steps=1, overwrite=overwrite, progress=False)
    assert snapshot(in_tmp) == before


def test_a_corpus_cache_is_not_put_into_a_folder_of_the_user(in_tmp):
    text = write(in_tmp / "book.txt", "a b c d e f g.\n" * 200)
    write(in_tmp / "mine" / "shard-00007.safetensors")
    write(in_tmp / "mine" / "notes.tmp")
    before = snapshot(in_tmp / "mine")
    options = {"data": {"cache": str(in_tmp / "mine"), "block_size": 16}, "model": {"dim": 8, "layers": 1, "heads": 2}}
    with pytest.raises(UserError, match="not empty"):
        regard.train("language", [text], out=in_tmp / "run", steps=1, settings=options, progress=False)
    assert snapshot(in_tmp / "mine") == before


def test_overwriting_a_run_keeps_what_the_user_added(in_tmp):
    data = write(in_tmp / "data.csv", ROWS)
    arguments = {"model": "kim-cnn", "steps": 2, "out": in_tmp / "run", "progress": False}
    regard.train("classify", data, **arguments)
    checkpoint = next((in_tmp / "run" / "state").iterdir())
    added = [in_tmp / "run" / name for name in ("notes.txt", "state/mine.txt", "logs/mine.txt", "corpus/mine.txt")]
    for path in [*added, checkpoint / "mine.txt"]:
        write(path)
    with pytest.raises(UserError, match="--overwrite"):
        regard.train("classify", data, **arguments)
    regard.train("classify", data, **arguments, overwrite=True)
    assert all(path.read_text() == "mine" for path in [*added, checkpoint / "mine.txt"])
    inside = write(in_tmp / "run" / "data.csv", ROWS)
    before = snapshot(in_tmp)
    with pytest.raises(UserError, match="inside"):
        regard.train("classify", inside, **arguments, overwrite=True)
    assert snapshot(in_tmp) == before


def test_save_pretrained_does_not_replace_files_of_the_user(in_tmp):
    run = regard.train("classify", write(in_tmp / "data.csv", ROWS), model="nb-svm", out=in_tmp / "run", progress=False)
    write(in_tmp / "mine" / "README.md")
    with pytest.raises(UserError, match="not empty"):
        run.save_pretrained(in_tmp / "mine")
    assert (in_tmp / "mine" / "README.md").read_text() == "mine"
    run.save_pretrained(in_tmp / "new")
    run.save_pretrained(in_tmp / "new")  # its own files may be replaced
    assert regard.load(in_tmp / "new").predict("good film").label == "pos"


@settings(max_examples=60, deadline=None)
@given(names=st.lists(st.sampled_from(["state", "logs", "corpus", "valid", "a.txt", "config.json", "b"]), max_size=4))
def test_only_files_that_match_are_removed(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("run")
    ours = [
        write(folder / name) for name in ("config.json", "state/step-3/model.safetensors", "corpus/shard-0.safetensors")
    ]
    path = folder.joinpath(*names, "user.md")
    try:
        write(path)
    except (FileExistsError, NotADirectoryError):  # a file of the run has that name
        return
    remove_files(folder, RUN_FILES)
    assert path.read_text() == "mine"
    assert not any(file.is_file() for file in ours)


def test_links_are_not_followed(tmp_path):
    outside = write(tmp_path / "outside" / "model.safetensors")
    (tmp_path / "run" / "state").mkdir(parents=True)
    os.symlink(outside.parent, tmp_path / "run" / "state" / "step-1")
    remove_files(tmp_path / "run", RUN_FILES)
    assert outside.read_text() == "mine"


def test_a_marker_says_what_a_folder_holds(tmp_path):
    claim_folder(tmp_path / "a", "run")
    claim_folder(tmp_path / "a", "run")
    assert owned_kind(tmp_path / "a") == "run"
    with pytest.raises(UserError, match="holds a run"):
        claim_folder(tmp_path / "a", "comparison")
    write(tmp_path / "b" / MARKER, "no json")
    assert owned_kind(tmp_path / "b") is None


def test_one_process_at_a_time_writes_to_a_folder(in_tmp):
    data = write(in_tmp / "data.csv", ROWS)
    claim_folder(in_tmp / "run", "run")
    with lock_output(in_tmp / "run"), pytest.raises(UserError, match=f"process {os.getpid()} on "):
        regard.train("classify", data, model="kim-cnn", steps=1, out=in_tmp / "run", progress=False)
    claim_folder(in_tmp / "exp", "comparison")
    with lock_output(in_tmp / "exp"), pytest.raises(UserError, match="another process is writing"):
        regard.compare("classify", data, models="nb-svm", seeds=1, budget="2steps", out=in_tmp / "exp", progress=False)
    regard.train("classify", data, model="kim-cnn", steps=1, out=in_tmp / "run", progress=False)


@pytest.mark.parametrize("command", ["dates --out a.tsv", "reviews --out a.csv", "people --out a --count 4"])
def test_generated_data_do_not_replace_files(in_tmp, command):
    arguments = [sys.executable, "-m", "regard", "data", "generate", *command.split()]
    assert subprocess.run(arguments, capture_output=True).returncode == 0
    before = snapshot(in_tmp)
    again = subprocess.run(arguments, capture_output=True, text=True)
    assert (again.returncode, "already exists" in again.stderr) == (2, True)
    assert snapshot(in_tmp) == before
