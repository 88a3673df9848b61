"""A command line that runs in this process: quick, and its exit code and both streams can be seen."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from regard.cli import main
from regard.data.reviews import generate

HEADER = ("review", "sentiment")


def write_reviews(path: Path, count: int = 60, seed: int = 0) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        writer.writerows((r.text, r.label) for r in generate(count, seed))


def write_corpus(path: Path, count: int = 120, seed: int = 0) -> None:
    path.write_text("\n".join(r.text for r in generate(count, seed)) + "\n")


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path):
    """cli("train", "classify", ...) -> (exit code, stdout, stderr), in an empty folder with reviews.csv in it."""
    monkeypatch.chdir(tmp_path)
    write_reviews(tmp_path / "reviews.csv")

    def call(*words: str, stdin: str | None = None) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", *words])
        if stdin is not None:
            import io

            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1 if leaving.code else 0
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A small run that every test may read and none may change."""
    import regard

    folder = tmp_path_factory.mktemp("trained")
    write_reviews(folder / "reviews.csv")
    quiet = {"progress": False, "say": lambda line: None}
    regard.train("classify", folder / "reviews.csv", model="han", steps=3, out=folder / "han", **quiet)
    return folder / "han"


@pytest.fixture(scope="session")
def speaking(tmp_path_factory) -> Path:
    """A folder with small language models, gpt and bert and the like, that every test may read and none may change."""
    import regard

    folder = tmp_path_factory.mktemp("speaking")
    write_corpus(folder / "corpus.txt")
    small = {"gpt": {"dim": 32, "layers": 1}, "bert": {"dim": 32, "layers": 1, "hidden": 48}}
    small |= {"birnn": {"dim": 24, "hidden": 24}, "cnn": {"dim": 24, "layers": 3}}
    objectives = {"gpt": "causal", "bert": "masked", "birnn": "blank", "cnn": "span"}
    for model, sizes in small.items():
        settings = {"model": sizes, "data": {"block": 32}, "tokenizer": {"vocab": 400}}
        quiet = {"progress": False, "say": lambda line: None}
        given = {"objective": objectives[model], "steps": 2, "out": folder / model, "settings": settings}
        regard.train("language", folder / "corpus.txt", model=model, **given, **quiet)
    return folder
