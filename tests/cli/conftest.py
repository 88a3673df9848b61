"""Fixtures of the command-line tests: run a command in this process, and small trained runs."""

from __future__ import annotations

import csv
import io
import sys
import zipfile
from pathlib import Path

import pytest

from regard.cli import main
from regard.data.synthetic.reviews import generate_reviews


def write_reviews(path: Path, count: int = 60, seed: int = 0) -> None:
    """Write a table with the columns review and sentiment."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("review", "sentiment"))
        writer.writerows((review.text, review.label) for review in generate_reviews(count, seed))


def write_corpus(path: Path, count: int = 120, seed: int = 0) -> None:
    """Write a text file with one review per line."""
    path.write_text("\n".join(review.text for review in generate_reviews(count, seed)) + "\n")


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path):
    """cli("train", "classify", ...) -> (exit code, stdout, stderr), in an empty folder with reviews.csv in it."""
    monkeypatch.chdir(tmp_path)
    write_reviews(tmp_path / "reviews.csv")

    def run_command(*words: str, stdin: str | None = None) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", *words])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 1 if exit_.code else 0
        out, err = capsys.readouterr()
        return code, out, err

    return run_command


@pytest.fixture(scope="session")
def classifier_run(tmp_path_factory) -> Path:
    """A small classifier. Tests must not change it."""
    import regard

    folder = tmp_path_factory.mktemp("classifier")
    write_reviews(folder / "reviews.csv")
    regard.train("classify", folder / "reviews.csv", model="han", steps=3, out=folder / "han", progress=False)
    return folder / "han"


LANGUAGE_MODELS = {
    "gpt": ("causal", {"dim": 32, "layers": 1}),
    "bert": ("masked", {"dim": 32, "layers": 1, "hidden": 48}),
    "birnn": ("blank", {"dim": 24, "hidden": 24}),
    "cnn": ("span", {"dim": 24, "layers": 3}),
}


@pytest.fixture(scope="session")
def language_runs(tmp_path_factory) -> Path:
    """A folder with the small language models gpt, bert, birnn and cnn. Tests must not change it."""
    import regard

    folder = tmp_path_factory.mktemp("language")
    write_corpus(folder / "corpus.txt")
    for model, (objective, sizes) in LANGUAGE_MODELS.items():
        settings = {"model": sizes, "data": {"block_size": 32}, "tokenizer": {"vocab_size": 400}}
        options = {"objective": objective, "steps": 2, "out": folder / model, "settings": settings}
        regard.train("language", folder / "corpus.txt", model=model, progress=False, **options)
    return folder


def write_pairs(folder: Path, count: int = 40, seed: int = 0) -> None:
    """Write train.en, train.de, val.en, val.de (the same letters reversed) and pairs.tsv (in capitals)."""
    for name, reviews in (("train", generate_reviews(count, seed)), ("val", generate_reviews(8, seed + 1))):
        lines = [" ".join(review.text.split()[:6]) for review in reviews]
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"{name}.de").write_text("".join(f"{line[::-1]}\n" for line in lines))
        if name == "train":
            (folder / "pairs.tsv").write_text("".join(f"{line}\t{line.upper()}\n" for line in lines))


@pytest.fixture(scope="session")
def translation_runs(tmp_path_factory) -> Path:
    """A folder with the small translator en-de. Tests must not change it."""
    import regard

    folder = tmp_path_factory.mktemp("translation")
    write_pairs(folder)
    settings = {"model": {"dim": 32, "hidden": 32, "layers": 2}, "tokenizer": {"vocab_size": 300}}
    files = [folder / "train.en", folder / "train.de"]
    regard.train("translate", files, steps=3, settings=settings, out=folder / "en-de", progress=False)
    return folder


def write_facts(folder: Path) -> None:
    """Write facts.txt, asked.tsv and others.tsv about Ada Lovelace and thirty others, and questions.txt."""
    places, first_names = (
        ["London", "Paris", "Rome", "Oslo", "New York"],
        ["Olga", "Ivo", "Ruth", "Hugo", "Lena", "Emil"],
    )
    people = [("Ada Lovelace", "London")]
    people += [(f"{a} {b}", places[(3 * i + j) % 5]) for i, a in enumerate(first_names) for j, b in enumerate("KLMNO")]
    people = [(name if len(name) > 6 else f"{name}arden", place) for name, place in people]
    (folder / "facts.txt").write_text("".join(f"{n}. {n} is a painter, born in {p} .\n" for n, p in people))
    for file, part in (("asked", people[::2]), ("others", people[1::2])):
        (folder / f"{file}.tsv").write_text("".join(f"Where was {n} born?\t{p}\n" for n, p in part))
    (folder / "questions.txt").write_text("Where was Ada Lovelace born?\nWhere was Grace Hopper born?\n")


@pytest.fixture(scope="session")
def recall_runs(tmp_path_factory) -> Path:
    """A folder with the small recall runs closed and open. Tests must not change it."""
    import regard

    folder = tmp_path_factory.mktemp("recall")
    write_facts(folder)
    files = [folder / "facts.txt", folder / "asked.tsv"]
    sizes = {"closed": {"dim": 32, "layers": 1, "table_size": 512}, "open": {"dim": 32, "layers": 1, "hidden": 32}}
    for book, model in sizes.items():
        settings = {"book": book, "model": model, "tokenizer": {"vocab_size": 400}, "train": {"lr": 0.01}}
        regard.train("recall", files, epochs=3, settings=settings, out=folder / book, progress=False)
    return folder


def write_images(folder: Path) -> None:
    """Write train.zip and unseen.zip with captions, photo.png, images/ with a subfolder per class, and features.npz."""
    import numpy as np

    from regard.data.synthetic.scene_files import write_scenes

    write_scenes(folder, 24, eval_count=4, size=32)
    with zipfile.ZipFile(folder / "unseen.zip") as archive:
        (folder / "photo.png").write_bytes(archive.read("unseen000001.png"))
    with zipfile.ZipFile(folder / "train.zip") as archive:
        rng = np.random.default_rng(0)
        features = {name: rng.normal(size=(3, 3, 5)).astype(np.float32) for name in archive.namelist()}
        np.savez(folder / "features.npz", **features)
        for i, name in enumerate(archive.namelist()):
            file = folder / "images" / ("even", "odd")[i % 2] / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(archive.read(name))


@pytest.fixture(scope="session")
def image_runs(tmp_path_factory) -> Path:
    """A folder with a small captioner, scenes, and a small image classifier, images-run. Tests must not change it."""
    import regard

    folder = tmp_path_factory.mktemp("images")
    write_images(folder)
    files = [folder / "train.zip", folder / "train.captions.tsv"]
    settings = {"model": {"channels": [8, 8], "dim": 16, "hidden": 16, "dropout": 0.0}, "data": {"size": 32}}
    settings["train"] = {"lr": 0.02, "evaluate_every": 100}  # long enough to generate a few words
    regard.train("caption", files, steps=20, settings=settings, out=folder / "scenes", progress=False)
    settings = {"model": {"channels": [8, 8], "dim": 16, "heads": 2}, "data": {"size": 32}}
    regard.train("images", folder / "images", steps=2, settings=settings, out=folder / "images-run", progress=False)
    return folder
