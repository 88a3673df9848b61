"""Synthetic data for comparisons, written to files in the folder of the comparison.

reviews:count=6000        one sentence decides the label; the deciding words are known     (classify)
contexts:count=6000       a sentence whose meaning depends on the one before it            (classify)
dates:count=4000          dates in many formats, to ISO                                    (translate)
numbers:count=4000        numbers in words, from one language to another                   (translate)
copies:count=4000         words in reverse order; the test texts are longer                (translate)
people:count=1000         people with invented names, born in real cities                  (recall)
scenes:count=1000         images of colored shapes with a sentence each                    (caption)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from regard.config import specs
from regard.data.synthetic import aligned_pairs, contexts, people, reviews, scene_files
from regard.errors import UserError

Rows = list[dict[str, Any]]


def write_synthetic_data(task: str, spec: str, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Generate data and write them to a folder.

    Args:
        spec: A name with options, such as "reviews:count=2000,seed=1".
        options: Options of the comparison; "test" is set if the data have a test part.

    Returns:
        The settings `data` of the runs.
    """
    name, spec_options = specs.parse_spec(spec)
    data_task, generate = specs.find_choice("synthetic data", name, GENERATORS)
    if data_task != task:
        raise UserError(f"{name!r} are data for the task {data_task!r}, not for {task!r}")
    try:
        count, seed = int(spec_options.pop("count", 4000)), int(spec_options.pop("seed", 0))
    except ValueError:
        raise UserError(f"{spec!r}: count and seed must be integers") from None
    if spec_options:
        raise UserError(f"{spec!r}: synthetic data have the options count and seed, not {', '.join(spec_options)}")
    folder.mkdir(parents=True, exist_ok=True)
    if task == "caption":
        scene_files.write_scenes(folder, count, seed=seed, eval_count=1)
        return {"train": [str((folder / f"train.{suffix}").absolute()) for suffix in ("zip", "captions.tsv")]}
    files = {}
    for part, content in generate(count, seed).items():
        text = (
            content
            if isinstance(content, str)
            else "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
        )
        suffix = {"facts": "txt", "questions": "tsv"}.get(part, "jsonl")
        files[part] = str((folder / f"{part}.{suffix}").absolute())
        Path(files[part]).write_text(text, encoding="utf-8")
    if "test" in files:
        options["test"] = [files["test"]]
    if task == "recall":
        return {"train": [files["facts"], files["questions"]]}
    if task == "classify":
        return {"train": files["train"], "text": "text", "label": "label"}
    return {"train": [files["train"]], "source": "source", "target": "target"}


def _people(count: int, seed: int) -> dict[str, str]:
    """Each fact has two phrasings. Questions about some people are held out."""
    data = people.generate_people(count, seed, phrasings=2, train_fraction=0.9)
    questions = "".join(f"{question}\t{answer}\n" for question, answer in data.train_questions)
    return {"facts": "\n".join(data.facts) + "\n", "questions": questions}


def _classification_rows(examples: Iterable[Any]) -> Rows:
    return [{"text": example.text, "label": example.label, "evidence": example.evidence} for example in examples]


def _reviews(count: int, seed: int) -> dict[str, Rows]:
    return {"train": _classification_rows(reviews.generate_reviews(count, seed))}


def _contexts(count: int, seed: int) -> dict[str, Rows]:
    """Train on lists of any length with random colors, test on balanced ones, where counting words does not help."""
    return {
        "train": _classification_rows(contexts.generate_contexts(count, seed, list_length=(1, 12), balanced=False)),
        "test": _classification_rows(contexts.generate_contexts(max(4, count // 6), seed + 1)),
    }


def _pairs(kind: str, count: int, seed: int) -> dict[str, Rows]:
    pairs = aligned_pairs.generate_pairs(kind, count, seed)
    return {"train": [{"source": pair.source, "target": pair.target} for pair in pairs]}


def _copies(count: int, seed: int) -> dict[str, Rows]:
    """Words in reverse order: texts of 2 to 10 words for training, of 11 to 16 for testing."""
    words = [f"{a}{b}" for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u")]

    def generate_rows(random: Random, low: int, high: int, n: int) -> Rows:
        rows = []
        for _ in range(n):
            source = random.choices(words, k=random.randint(low, high))
            rows.append({"source": " ".join(source), "target": " ".join(reversed(source))})
        return rows

    random = Random(f"copies {seed}")
    return {"train": generate_rows(random, 2, 10, count), "test": generate_rows(random, 11, 16, max(4, count // 6))}


GENERATORS: dict[str, tuple[str, Callable[[int, int], Mapping[str, Rows | str]]]] = {
    "reviews": ("classify", _reviews),
    "contexts": ("classify", _contexts),
    "dates": ("translate", lambda count, seed: _pairs("dates", count, seed)),
    "numbers": ("translate", lambda count, seed: _pairs("numbers", count, seed)),
    "copies": ("translate", _copies),
    "people": ("recall", _people),
    "scenes": ("caption", lambda count, seed: {}),
}
