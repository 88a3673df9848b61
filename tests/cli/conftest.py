"""A command line that runs in this process: quick, and its exit code and both streams can be seen."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from regard.cli import main
from regard.data.synthetic.reviews import generate_reviews

HEADER = ("review", "sentiment")


def write_reviews(path: Path, count: int = 60, seed: int = 0) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        writer.writerows((r.text, r.label) for r in generate_reviews(count, seed))


def write_corpus(path: Path, count: int = 120, seed: int = 0) -> None:
    path.write_text("\n".join(r.text for r in generate_reviews(count, seed)) + "\n")


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
    quiet = {"progress": False}
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
        settings = {"model": sizes, "data": {"block_size": 32}, "tokenizer": {"vocab_size": 400}}
        quiet = {"progress": False}
        given = {"objective": objectives[model], "steps": 2, "out": folder / model, "settings": settings}
        regard.train("language", folder / "corpus.txt", model=model, **given, **quiet)
    return folder


def write_pairs(folder: Path, count: int = 40, seed: int = 0) -> None:
    """train.en, train.de, val.en, val.de and pairs.tsv: words that are turned round."""
    for name, texts in (("train", generate_reviews(count, seed)), ("val", generate_reviews(8, seed + 1))):
        lines = [" ".join(review.text.split()[:6]) for review in texts]
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(f"{line[::-1]}\n" for line in lines))
        if name == "train":
            (folder / "pairs.tsv").write_text("".join(f"{line}\t{line.upper()}\n" for line in lines))


@pytest.fixture(scope="session")
def translating(tmp_path_factory) -> Path:
    """A folder with a small translator, en-de, that every test may read and none may change."""
    import regard

    folder = tmp_path_factory.mktemp("translating")
    write_pairs(folder)
    settings = {"model": {"dim": 32, "hidden": 32, "layers": 2}, "tokenizer": {"vocab_size": 300}}
    quiet = {"progress": False}
    files = [folder / "train.en", folder / "train.de"]
    regard.train("translate", files, steps=3, settings=settings, out=folder / "en-de", **quiet)
    return folder


def write_facts(folder: Path) -> None:
    """facts.txt, asked.tsv and others.tsv: Ada Lovelace and thirty others, of whom half are asked about."""
    places, first = ["London", "Paris", "Rome", "Oslo", "New York"], ["Olga", "Ivo", "Ruth", "Hugo", "Lena", "Emil"]
    people = [("Ada Lovelace", "London")]
    people += [(f"{a} {b}", places[(3 * i + j) % 5]) for i, a in enumerate(first) for j, b in enumerate("KLMNO")]
    people = [(name if len(name) > 6 else f"{name}arden", place) for name, place in people]
    (folder / "facts.txt").write_text("".join(f"{n}. {n} is a painter, born in {p} .\n" for n, p in people))
    for name, part in (("asked", people[::2]), ("others", people[1::2])):
        (folder / f"{name}.tsv").write_text("".join(f"Where was {n} born?\t{p}\n" for n, p in part))
    (folder / "questions.txt").write_text("Where was Ada Lovelace born?\nWhere was Grace Hopper born?\n")


@pytest.fixture(scope="session")
def recalling(tmp_path_factory) -> Path:
    """A folder with small runs of recall, closed and open, that every test may read and none may change."""
    import regard

    folder = tmp_path_factory.mktemp("recalling")
    write_facts(folder)
    files, quiet = [folder / "facts.txt", folder / "asked.tsv"], {"progress": False}
    sizes = {"closed": {"dim": 32, "layers": 1, "table": 512}, "open": {"dim": 32, "layers": 1, "hidden": 32}}
    for book, model in sizes.items():
        settings = {"book": book, "model": model, "tokenizer": {"vocab_size": 400}, "train": {"lr": 0.01}}
        regard.train("recall", files, epochs=3, settings=settings, out=folder / book, **quiet)
    return folder


def write_pictures(folder: Path) -> None:
    """train.zip and unseen.zip with their captions, photo.png, pictures/ with a subfolder a class, and features.npz of
    what train.zip shows."""
    import zipfile

    import numpy as np

    from regard.data.synthetic.scene_files import write_scenes

    write_scenes(folder, 24, eval_count=4, size=32)
    with zipfile.ZipFile(folder / "unseen.zip") as archive:
        (folder / "photo.png").write_bytes(archive.read("unseen000001.png"))
    with zipfile.ZipFile(folder / "train.zip") as archive:
        random = np.random.default_rng(0)
        seen = {name: random.normal(size=(3, 3, 5)).astype(np.float32) for name in archive.namelist()}
        np.savez(folder / "features.npz", **seen)
        for i, name in enumerate(archive.namelist()):
            file = folder / "pictures" / ("even", "odd")[i % 2] / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(archive.read(name))


@pytest.fixture(scope="session")
def captioning(tmp_path_factory) -> Path:
    """A folder with a small captioner, scenes, and a small classifier of pictures, that no test may change."""
    import regard

    folder = tmp_path_factory.mktemp("captioning")
    write_pictures(folder)
    quiet = {"progress": False}
    files = [folder / "train.zip", folder / "train.captions.tsv"]
    settings = {"model": {"channels": [8, 8], "dim": 16, "hidden": 16, "dropout": 0.0}, "data": {"size": 32}}
    settings["train"] = {"lr": 0.02, "evaluate_every": 100}  # long enough to say a few words
    regard.train("caption", files, steps=20, settings=settings, out=folder / "scenes", **quiet)
    settings = {"model": {"channels": [8, 8], "dim": 16, "heads": 2}, "data": {"size": 32}}
    regard.train("images", folder / "pictures", steps=2, settings=settings, out=folder / "pictures-run", **quiet)
    return folder
