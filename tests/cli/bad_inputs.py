"""Inputs that a user can get wrong, what is typed, and a part of what must be said.

docs/bad_inputs.py makes the table of them."""

from __future__ import annotations

import gzip
import io
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRAIN = "train classify {file} --steps 2 --quiet"
LANGUAGE = "train language --steps 2 --quiet"
CAPTION = "train caption pictures captions.tsv --steps 1 --size 16 --set model.channels=[8] --set model.dim=8"


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


def filed(names: Iterable[str], *more: str) -> Callable[[Path], None]:
    """Files in folders, each with a text."""
    every = [*names, *more]

    def prepare(folder: Path) -> None:
        for name in every:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"a film called {name}")

    return prepare


def both(*makers: Callable[[Path], None]) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        for make in makers:
            make(folder)

    return prepare


def small_disk(folder: Path) -> None:
    """A disk of 300 kB, mounted as `full`; only root can."""
    (folder / "full").mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(folder / "full")], capture_output=True
    )
    if done.returncode:
        raise NotPreparedError("mounting a small disk needs root")


def picture(name: str, **how: Any) -> bytes:
    """A small picture in the form that its ending says."""
    from PIL import Image

    file = io.BytesIO()
    Image.new(how.pop("mode", "RGB"), how.pop("size", (24, 16)), how.pop("colour", 90)).save(
        file, {".png": "PNG", ".jpg": "JPEG", ".gif": "GIF"}[Path(name).suffix], **how
    )
    return file.getvalue()


def animated() -> bytes:
    from PIL import Image

    return picture("a.gif", save_all=True, append_images=[Image.new("RGB", (24, 16), "red")])


def bomb() -> bytes:
    """The head of a PNG that says it has 60,000 x 60,000 points."""
    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 999)), (b"IEND", b""))
    )


def pictured(
    name: str = "d.png", raw: bytes | None = None, lines: str = "", keep: bool = True
) -> Callable[[Path], None]:
    """Three good pictures with captions (unless they are not kept), one more with its caption, and further lines."""

    def prepare(folder: Path) -> None:
        (folder / "pictures").mkdir()
        good = ("a.png", "b.png", "c.png") if keep else ()
        for each in good:
            (folder / "pictures" / each).write_bytes(picture(each, colour=(200, 30, 40)))
        if raw is not None:
            (folder / "pictures" / name).write_bytes(raw)
        said = [*good, *([name] if raw is not None else [])]
        (folder / "captions.tsv").write_text("".join(f"{each}\ta red square\n" for each in said) + lines)

    return prepare


def pickled(folder: Path) -> None:
    """Arrays of objects, which only pickle can read."""
    import numpy as np

    pictured()(folder)
    np.savez(folder / "features.npz", **{name: np.array([{"a": 1}], object) for name in ("a", "b", "c")})


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
    Bad("no room on disk", "train classify reviews.csv --steps 2 --quiet --out full/run", "space", small_disk),
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
        TRAIN.format(file="reviews.csv") + " --model transformer --mechanism merged-qk --positions rotary",
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
    Bad(
        "the name of a file as the text",
        "predict run one.txt",
        "its name was not read as a text: use --file",
        put("one.txt", "We loved it.\n"),
    ),
    Bad("nothing to look at", "look run", "--file FILE"),
    Bad(
        "train and test where classes are wanted",
        TRAIN.format(file="nest"),
        "each with neg and pos",
        filed(f"nest/{part}/{name}/{i}.txt" for part in ("train", "test") for name in ("neg", "pos") for i in "12"),
    ),
    Bad(
        "files of other kinds among texts (counted)",
        "train classify docs --steps 1",
        "3 files of other kinds left out: .html, .1",
        filed([f"docs/{name}/{i}" for name in ("neg", "pos") for i in ("1.txt", "2.txt", "x.html")], "docs/pos/note.1"),
        code=0,
    ),
    Bad(
        "several labels in a cell (told)",
        "train classify genres.csv --steps 1",
        "several a document? --multi-label",
        put("genres.csv", "text,genres\n" + "".join(f"a film,{a}|{b}\n" for a in "pqrs" for b in "tuvw") * 2),
        code=0,
    ),
    Bad("an empty corpus", f"{LANGUAGE} empty.txt", "no text", put("empty.txt", "")),
    Bad(
        "a corpus shorter than one window",
        f"{LANGUAGE} short.txt",
        "data.block_size=256",
        put("short.txt", "A few words."),
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
        f"{LANGUAGE} corpus.txt --block-size 5000",
        "learned:length=5000",
        put("corpus.txt", "A few words."),
    ),
    Bad(
        "a broken picture (left out, counted)",
        CAPTION,
        "1 pictures are broken and left out: d.jpg",
        pictured("d.jpg", b"\xff\xd8 and no more"),
        code=0,
    ),
    Bad("a picture cut short", CAPTION, "left out: d.png", pictured("d.png", picture("d.png")[:60]), code=0),
    Bad("a grey picture (used)", CAPTION, "1 grey pictures", pictured("d.png", picture("d.png", mode="L")), code=0),
    Bad(
        "a CMYK picture (used)",
        CAPTION,
        "1 CMYK pictures",
        pictured("d.jpg", picture("d.jpg", mode="CMYK", colour=(9, 9, 9, 9))),
        code=0,
    ),
    Bad(
        "an animated picture (its first frame)",
        CAPTION,
        "first frame is taken: d.gif",
        pictured("d.gif", animated()),
        code=0,
    ),
    Bad(
        "a picture that unpacks to 3,600 million points (refused, counted)",
        CAPTION,
        "more than 64,000,000 pixels are refused: d.png",
        pictured("d.png", bomb()),
        code=0,
    ),
    Bad("no picture that can be read", CAPTION, "no picture of", pictured("d.png", bomb(), keep=False)),
    Bad(
        "a caption without its picture (counted)",
        CAPTION,
        "1 captions have no picture and are left out: gone.png",
        pictured(lines="gone.png\ta blue ring\n"),
        code=0,
    ),
    Bad(
        "an empty caption (counted)",
        CAPTION,
        "1 captions are empty and left out: a.png",
        pictured(lines="a.png\t . \n"),
        code=0,
    ),
    Bad(
        "captions of other pictures",
        CAPTION,
        "no caption of",
        both(pictured(), put("captions.tsv", "x.png\ta ring\n")),
    ),
    Bad("captions without a tab", CAPTION, "a tab and a caption", pictured(lines="a.png a red square\n")),
    Bad("pictures without their captions", "train caption pictures", "PICTURES CAPTIONS", pictured()),
    Bad("pictures that are in no class", "train classify pictures", "two classes or more", pictured()),
    Bad(
        "a zip cut short",
        CAPTION.replace("pictures", "p.zip"),
        "not a zip",
        both(pictured(), put("p.zip", b"PK\3\4 no more")),
    ),
    Bad(
        "features that only pickle could read",
        CAPTION.replace("pictures", "features.npz"),
        "something other than numbers",
        pickled,
    ),
    Bad("a corpus that is not UTF-8", f"{LANGUAGE} latin.txt", "UTF-8", put("latin.txt", b"caf\xe9 " * 900)),
]
