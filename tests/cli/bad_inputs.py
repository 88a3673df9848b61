"""Inputs that a user can get wrong, what is typed, and a part of what must be said.

docs/bad_inputs.py makes the table of them."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TRAIN = "train classify {file} --steps 2 --quiet"
LANGUAGE = "train language --steps 2 --quiet"


class NotPreparedError(Exception):
    """This machine cannot make the input."""


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


def small_disk(folder: Path) -> None:
    """A disk of 300 kB, mounted as `full`; only root can."""
    (folder / "full").mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(folder / "full")], capture_output=True
    )
    if done.returncode:
        raise NotPreparedError("mounting a small disk needs root")


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
        "empty",
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
    Bad("no room on disk", "train classify reviews.csv --steps 2 --quiet --out full/run", "room", small_disk),
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
    Bad("nothing to resume", "train classify --resume --out nothing", "no such run folder"),
    Bad("resumed with other settings", "train classify --resume --out run --lr 0.5", "other settings"),
    Bad("an unknown optimizer", TRAIN.format(file="reviews.csv") + " --optimizer sgdd", "adamw"),
    Bad("an unknown strategy", TRAIN.format(file="reviews.csv") + " --strategy dpp", "dpp"),
    Bad("an unknown decay", TRAIN.format(file="reviews.csv") + " --set train.decay=cosin", "'cosine'"),
    Bad("a seed below 0", TRAIN.format(file="reviews.csv") + " --seed -1", "seed"),
    Bad("a layer without width", TRAIN.format(file="reviews.csv") + " --set model.hidden=0", "hidden=0"),
    Bad(
        "texts without a word",
        TRAIN.format(file="marks.csv") + " --model tfidf",
        "bag of words",
        put("marks.csv", "review,sentiment\n" + "!!!,good\n???,bad\n" * 9),
    ),
    Bad("an --out that is not a run", TRAIN.format(file="reviews.csv") + " --out . --overwrite", "not a run"),
    Bad(
        "an --out with another's config.json",
        TRAIN.format(file="reviews.csv") + " --out broken --overwrite",
        "config.json",
        copy_run(put("config.json", '{"model_type": "bert"}')),
    ),
    Bad(
        "an imported model where a run is wanted",
        "predict broken hello",
        "regard import",
        copy_run(put("config.json", '{"format": 1, "imported": {}}')),
    ),
    Bad(
        "a config.json with parts missing",
        "predict broken hello",
        "config.json",
        copy_run(put("config.json", '{"format": 1, "settings": {}}')),
    ),
    Bad(
        "a settings file that is not UTF-8",
        TRAIN.format(file="reviews.csv") + " --config s.yaml",
        "s.yaml",
        put("s.yaml", b"seed: \xff\n"),
    ),
    Bad("an empty text", "predict run ''", "empty"),
    Bad("an empty corpus", f"{LANGUAGE} empty.txt", "no text", put("empty.txt", "")),
    Bad(
        "a corpus shorter than one window", f"{LANGUAGE} short.txt", "data.block=256", put("short.txt", "A few words.")
    ),
    Bad("no such corpus", f"{LANGUAGE} corpsu.txt", "'corpus.txt'", put("corpus.txt", "A few words.")),
    Bad(
        "a model that cannot learn the objective",
        f"{LANGUAGE} corpus.txt --objective masked --model gpt",
        "gpt learns causal and span",
        put("corpus.txt", "A few words."),
    ),
    Bad(
        "an option of another objective",
        f"{LANGUAGE} corpus.txt --whole-words",
        "corruption.whole_words",
        put("corpus.txt", "A few words."),
    ),
    Bad(
        "a run of another task to start from",
        f"{LANGUAGE} corpus.txt --from run",
        "it can start a han of 'classify'",
        put("corpus.txt", "A few words."),
    ),
    Bad(
        "a window longer than the positions",
        f"{LANGUAGE} corpus.txt --block 5000",
        "learned:length=5000",
        put("corpus.txt", "A few words."),
    ),
    Bad("a corpus that is not UTF-8", f"{LANGUAGE} latin.txt", "UTF-8", put("latin.txt", b"caf\xe9 " * 900)),
]
