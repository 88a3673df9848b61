"""Inputs that a user can get wrong, what is typed, and a part of what must be said.

docs/bad_inputs.py makes the table of them."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TRAIN = "train classify {file} --steps 2 --quiet"


@dataclass(frozen=True)
class Bad:
    title: str
    command: str
    says: str
    prepare: Callable[[Path], None] = lambda folder: None
    code: int = 2
    """0 where the input is odd and can be used: it is then named or counted."""


def put(name: str, content: str | bytes) -> Callable[[Path], None]:
    data = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(data) and None


def two_classes(rows: int = 8) -> str:
    return "review,sentiment\n" + "".join(f"a {w} film number {i},{w}\n" for i in range(rows) for w in ("good", "bad"))


def copy_run(change: Callable[[Path], None]) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        shutil.copytree(folder / "run", folder / "broken")
        change(folder / "broken")

    return prepare


def cut_weights(run: Path) -> None:
    file = run / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


CASES = [
    Bad("no such file", TRAIN.format(file="revews.csv"), "no such file"),
    Bad("no such column", TRAIN.format(file="reviews.csv") + " --text reviw", "review"),
    Bad("an empty file", TRAIN.format(file="empty.csv"), "empty", put("empty.csv", "")),
    Bad("a header and nothing else", TRAIN.format(file="head.csv"), "head.csv", put("head.csv", "review,sentiment\n")),
    Bad(
        "all cells empty",
        TRAIN.format(file="void.csv") + " --text review --label sentiment",
        "void.csv",
        put("void.csv", "review,sentiment\n" + ",\n" * 5),
    ),
    Bad(
        "some empty cells (counted, training goes on)",
        "train classify gaps.csv --steps 1",
        "3 ",
        put("gaps.csv", two_classes() + ",good\n,bad\nno label here,\n"),
        code=0,
    ),
    Bad(
        "a single class",
        TRAIN.format(file="one.csv"),
        "two classes or more",
        put("one.csv", "review,sentiment\n" + "fine film,good\n" * 9),
    ),
    Bad(
        "a label never seen in training",
        "evaluate run strange.csv",
        "training never saw",
        put("strange.csv", "review,sentiment\nfine film,wonderful\n"),
    ),
    Bad(
        "broken UTF-8",
        TRAIN.format(file="broken.csv"),
        "UTF-8",
        put("broken.csv", two_classes().encode() + b"\xff\xfe,good\n"),
    ),
    Bad(
        "a row of 10 MB (used, cut to max_tokens)",
        "train classify long.csv --steps 1",
        "longer than 2000 tokens",
        put("long.csv", two_classes() + "word " * 2_000_000 + ",good\n"),
        code=0,
    ),
    Bad("an unknown kind of file", TRAIN.format(file="reviews.xlsx"), ".csv", put("reviews.xlsx", "x")),
    Bad(
        "a broken gzip file", TRAIN.format(file="r.csv.gz"), "gzip", put("r.csv.gz", gzip.compress(b"a,b\n" * 99)[:20])
    ),
    Bad("a Parquet file that is none", TRAIN.format(file="r.parquet"), "arquet", put("r.parquet", "PAR0")),
    Bad(
        "a loss that is no number",
        "train classify reviews.csv --steps 30 --lr 1e30 --quiet --set train.clip=0",
        "batch",
    ),
    Bad("no room on disk", "train classify reviews.csv --steps 2 --out /dev/full/run", "/dev/full"),
    Bad("a run folder that is none", "predict nowhere hello", "no such run folder"),
    Bad("a folder that is no run", "predict . hello", "not a run folder"),
    Bad("a checkpoint cut short", "predict broken hello", "safetensors", copy_run(cut_weights)),
    Bad("a tokenizer cut short", "predict broken hello", "tokenizer", copy_run(put("tokenizer.json", "{"))),
    Bad(
        "a config.json of something else",
        "predict broken hello",
        "config.json",
        copy_run(put("config.json", '{"a": 1}')),
    ),
    Bad("an unknown model", TRAIN.format(file="reviews.csv") + " --model hna", "did you mean 'han'"),
    Bad(
        "an unknown mechanism",
        TRAIN.format(file="reviews.csv") + " --model transformer --mechanism addtive",
        "'additive'",
    ),
    Bad(
        "an unknown option of a mechanism",
        TRAIN.format(file="reviews.csv") + " --model transformer --mechanism local:windw=4",
        "'window'",
    ),
    Bad(
        "a pair that is not defined",
        TRAIN.format(file="reviews.csv") + " --model transformer --mechanism merged --positions rotary",
        "regard list",
    ),
    Bad("a mechanism for a model without one", TRAIN.format(file="reviews.csv") + " --mechanism dot", "transformer"),
    Bad("an unknown setting", TRAIN.format(file="reviews.csv") + " --set train.lrr=1", "'lr'"),
    Bad("a setting of the wrong type", TRAIN.format(file="reviews.csv") + " --set train.lr=fast", "float"),
    Bad(
        "heads that do not divide the width",
        TRAIN.format(file="reviews.csv") + " --model transformer --set model.heads=7",
        "8",
    ),
    Bad("an unknown option", "train classify reviews.csv --modle han", "--model"),
    Bad("a time that is none", "train classify reviews.csv --budget soon", "2min"),
    Bad("two lengths", "train classify reviews.csv --steps 2 --epochs 2", "one of epochs, steps or budget"),
    Bad("a run folder that is taken", "train classify reviews.csv --steps 2 --out run", "--resume"),
    Bad("nothing to resume", "train classify --resume --out nothing", "no data"),
    Bad("resumed with other settings", "train classify --resume --out run --lr 0.5", "other settings"),
    Bad("an unknown optimizer", TRAIN.format(file="reviews.csv") + " --optimizer sgdd", "adamw"),
    Bad("an empty text", "predict run ''", "empty"),
]
