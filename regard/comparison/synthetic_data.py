"""Generated data for comparisons, written beside them as plain files.

reviews:count=6000        one sentence decides; the words that do are known          (classify)
contexts:count=6000       a sentence that means nothing without the one before       (classify)
dates:count=4000          dates as people write them, to ISO                         (translate)
numbers:count=4000        numbers spelled out in one language, to another            (translate)
copies:count=4000         words said again in reverse; the test has longer ones      (translate)
people:count=1000         people with invented names, born in real cities            (recall)
scenes:count=1000         pictures of coloured shapes with a sentence each           (caption)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from regard.config import specs
from regard.data.synthetic import aligned_pairs, contexts, people, reviews, scene_files
from regard.errors import UserError

Rows = list[dict[str, Any]]


def write(task: str, spec: str, home: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """Write what `spec` names into `home`, and give the settings `data`; a test part of its own is put into `asked`,
    where the data have one."""
    name, options = specs.parse_spec(spec)
    of, make = specs.find_choice("generated data", name, KINDS)
    if of != task:
        raise UserError(f"{name!r} are data for {of!r}, not for {task!r}")
    try:
        count, seed = int(options.pop("count", 4000)), int(options.pop("seed", 0))
    except ValueError:
        raise UserError(f"{spec!r}: count and seed are numbers") from None
    if options:
        raise UserError(f"{spec!r}: generated data take count and seed, and not {', '.join(options)}")
    home.mkdir(parents=True, exist_ok=True)
    if task == "caption":
        scene_files.write_scenes(home, count, seed=seed, eval_count=1)
        return {"train": [str((home / f"train.{ending}").absolute()) for ending in ("zip", "captions.tsv")]}
    files = {}
    for part, content in make(count, seed).items():
        rows = (
            content if isinstance(content, str) else "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in content)
        )
        ending = {"facts": "txt", "asked": "tsv"}.get(part, "jsonl")
        files[part] = str((home / f"{part}.{ending}").absolute())
        Path(files[part]).write_text(rows, encoding="utf-8")
    if "test" in files:
        asked["test"] = [files["test"]]
    if task == "recall":
        return {"train": [files["facts"], files["asked"]]}
    if task == "classify":
        return {"train": files["train"], "text": "text", "label": "label"}
    return {"train": [files["train"]], "source": "source", "target": "target"}


def _people(count: int, seed: int) -> dict[str, str]:
    """Each fact is said in two ways; of all people the answer is known, and some are kept back."""
    made = people.generate_people(count, seed, phrasings=2, train_fraction=0.9)
    return {"facts": "\n".join(made.facts) + "\n", "asked": "".join(f"{q}\t{a}\n" for q, a in made.train_questions)}


def _reviews(count: int, seed: int) -> dict[str, Rows]:
    made = reviews.generate_reviews(count, seed)
    return {"train": [{"text": r.text, "label": r.label, "evidence": r.evidence} for r in made]}


def _contexts(count: int, seed: int) -> dict[str, Rows]:
    """Learnt from lists of any length in colours drawn freely, measured on even ones, from which words tell nothing."""
    parts = {
        "train": contexts.generate_contexts(count, seed, list_length=(1, 12), balanced=False),
        "test": contexts.generate_contexts(max(4, count // 6), seed + 1),
    }
    return {
        part: [{"text": c.text, "label": c.label, "evidence": c.evidence} for c in made] for part, made in parts.items()
    }


def _written(kind: str, count: int, seed: int) -> dict[str, Rows]:
    return {"train": [{"source": w.source, "target": w.target} for w in aligned_pairs.generate_pairs(kind, count, seed)]}


def _copies(count: int, seed: int) -> dict[str, Rows]:
    """Words in reverse: of 2 to 10 words to learn from, of 11 to 16 to be measured on."""
    words = [f"{a}{b}" for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u")]

    def make(random: Random, low: int, high: int, n: int) -> Rows:
        rows = []
        for _ in range(n):
            said = random.choices(words, k=random.randint(low, high))
            rows.append({"source": " ".join(said), "target": " ".join(reversed(said))})
        return rows

    random = Random(f"copies {seed}")
    return {"train": make(random, 2, 10, count), "test": make(random, 11, 16, max(4, count // 6))}


KINDS: dict[str, tuple[str, Callable[[int, int], Mapping[str, Rows | str]]]] = {
    "reviews": ("classify", _reviews),
    "contexts": ("classify", _contexts),
    "dates": ("translate", lambda count, seed: _written("dates", count, seed)),
    "numbers": ("translate", lambda count, seed: _written("numbers", count, seed)),
    "copies": ("translate", _copies),
    "people": ("recall", _people),
    "scenes": ("caption", lambda count, seed: {}),
}
