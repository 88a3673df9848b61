"""Bad inputs: the command, and a part of the message that it must print.

docs/bad_inputs_table.py writes the table in docs/bad-inputs.md."""

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
CAPTION = "train caption images captions.tsv --steps 1 --size 16 --set model.channels=[8] --set model.dim=8"


class CannotPrepareError(Exception):
    """The input cannot be created on this machine."""


@dataclass(frozen=True)
class BadInput:
    """A bad input. The exit code is 0 if the input is unusual but can be used; it is then reported."""

    title: str
    command: str
    message: str
    prepare: Callable[[Path], None] = lambda folder: None
    code: int = 2


def write_file(name: str, content: str | bytes) -> Callable[[Path], None]:
    data = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(data) and None


def write_texts(names: Iterable[str]) -> Callable[[Path], None]:
    """Write files in folders, each with a text."""
    paths = list(names)

    def prepare(folder: Path) -> None:
        for name in paths:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"a film called {name}")

    return prepare


def combine(*steps: Callable[[Path], None]) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        for step in steps:
            step(folder)

    return prepare


def small_disk(folder: Path) -> None:
    """Mount a disk of 300 kB as `full`; needs root."""
    (folder / "full").mkdir()
    result = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(folder / "full")], capture_output=True
    )
    if result.returncode:
        raise CannotPrepareError("mounting a small disk needs root")


def encode_image(name: str, **options: Any) -> bytes:
    """A small image in the format of the file name."""
    from PIL import Image

    file = io.BytesIO()
    Image.new(options.pop("mode", "RGB"), options.pop("size", (24, 16)), options.pop("color", 90)).save(
        file, {".png": "PNG", ".jpg": "JPEG", ".gif": "GIF"}[Path(name).suffix], **options
    )
    return file.getvalue()


def animated_image() -> bytes:
    from PIL import Image

    return encode_image("a.gif", save_all=True, append_images=[Image.new("RGB", (24, 16), "red")])


def huge_image() -> bytes:
    """A PNG whose header declares 60,000 x 60,000 pixels."""
    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 999)), (b"IEND", b""))
    )


def write_images(
    name: str = "d.png", raw: bytes | None = None, lines: str = "", keep: bool = True
) -> Callable[[Path], None]:
    """Write three good images with captions (unless `keep` is False), one more image, and more lines of captions."""

    def prepare(folder: Path) -> None:
        (folder / "images").mkdir()
        good = ("a.png", "b.png", "c.png") if keep else ()
        for image in good:
            (folder / "images" / image).write_bytes(encode_image(image, color=(200, 30, 40)))
        if raw is not None:
            (folder / "images" / name).write_bytes(raw)
        names = [*good, *([name] if raw is not None else [])]
        (folder / "captions.tsv").write_text("".join(f"{image}\ta red square\n" for image in names) + lines)

    return prepare


def write_pickled_features(folder: Path) -> None:
    """Write arrays of objects, which only pickle can read."""
    import numpy as np

    write_images()(folder)
    np.savez(folder / "features.npz", **{name: np.array([{"a": 1}], object) for name in ("a", "b", "c")})


def table_of_two_classes(rows: int = 8) -> str:
    return "review,sentiment\n" + "".join(f"a {w} film number {i},{w}\n" for i in range(rows) for w in ("good", "bad"))


def copy_run(change: Callable[[Path], None]) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        shutil.copytree(folder / "run", folder / "broken")
        change(folder / "broken")

    return prepare


def truncate_weights(run: Path) -> None:
    file = run / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


CASES = [
    BadInput("no such file", TRAIN.format(file="revews.csv"), "no such file"),
    BadInput("no such column", TRAIN.format(file="reviews.csv") + " --text reviw", "review"),
    BadInput("an empty file", TRAIN.format(file="empty.csv"), "empty", write_file("empty.csv", "")),
    BadInput(
        "a header without rows", TRAIN.format(file="head.csv"), "head.csv", write_file("head.csv", "review,sentiment\n")
    ),
    BadInput(
        "all cells empty",
        TRAIN.format(file="void.csv") + " --text review --label sentiment",
        "void.csv",
        write_file("void.csv", "review,sentiment\n" + ",\n" * 5),
    ),
    BadInput(
        "some empty cells (skipped and counted)",
        "train classify gaps.csv --steps 1",
        "empty",
        write_file("gaps.csv", table_of_two_classes() + ",good\n,bad\nno label here,\n"),
        code=0,
    ),
    BadInput(
        "a single class",
        TRAIN.format(file="one.csv"),
        "requires at least two classes",
        write_file("one.csv", "review,sentiment\n" + "fine film,good\n" * 9),
    ),
    BadInput(
        "a label that did not occur in training",
        "evaluate run other.csv",
        "labels that are not in the training data",
        write_file("other.csv", "review,sentiment\nfine film,wonderful\n"),
    ),
    BadInput(
        "broken UTF-8",
        TRAIN.format(file="broken.csv"),
        "UTF-8",
        write_file("broken.csv", table_of_two_classes().encode() + b"\xff\xfe,good\n"),
    ),
    BadInput(
        "a row of 10 MB (truncated)",
        "train classify long.csv --steps 1",
        "truncated to 2000 tokens",
        write_file("long.csv", table_of_two_classes() + "word " * 2_000_000 + ",good\n"),
        code=0,
    ),
    BadInput("an unknown file type", TRAIN.format(file="reviews.xlsx"), ".csv", write_file("reviews.xlsx", "x")),
    BadInput(
        "a broken gzip file",
        TRAIN.format(file="r.csv.gz"),
        "gzip",
        write_file("r.csv.gz", gzip.compress(b"a,b\n" * 99)[:20]),
    ),
    BadInput("an invalid Parquet file", TRAIN.format(file="r.parquet"), "arquet", write_file("r.parquet", "PAR0")),
    BadInput(
        "a loss that becomes NaN",
        "train classify reviews.csv --steps 30 --lr 1e30 --quiet --set train.clip=0",
        "batch",
    ),
    BadInput("a full disk", "train classify reviews.csv --steps 2 --quiet --out full/run", "space", small_disk),
    BadInput("a run folder that does not exist", "predict nowhere hello", "no such run folder"),
    BadInput("a folder that is not a run", "predict . hello", "not a run folder"),
    BadInput("a truncated checkpoint", "predict broken hello", "safetensors", copy_run(truncate_weights)),
    BadInput("a truncated tokenizer", "predict broken hello", "tokenizer", copy_run(write_file("tokenizer.json", "{"))),
    BadInput(
        "an unrelated config.json",
        "predict broken hello",
        "config.json",
        copy_run(write_file("config.json", '{"a": 1}')),
    ),
    BadInput("an unknown model", TRAIN.format(file="reviews.csv") + " --model hna", "did you mean 'han'"),
    BadInput(
        "an unknown mechanism",
        TRAIN.format(file="reviews.csv") + " --model transformer --mechanism addtive",
        "'additive'",
    ),
    BadInput(
        "an unknown option of a mechanism",
        TRAIN.format(file="reviews.csv") + " --model transformer --mechanism local:windw=4",
        "'window'",
    ),
    BadInput(
        "a combination that is not defined",
        TRAIN.format(file="reviews.csv") + " --model transformer --mechanism merged-qk --positions rotary",
        "regard list",
    ),
    BadInput(
        "a mechanism for a model without that choice",
        TRAIN.format(file="reviews.csv") + " --mechanism dot",
        "transformer",
    ),
    BadInput("an unknown setting", TRAIN.format(file="reviews.csv") + " --set train.lrr=1", "'lr'"),
    BadInput("a setting of the wrong type", TRAIN.format(file="reviews.csv") + " --set train.lr=fast", "float"),
    BadInput(
        "heads that do not divide the width",
        TRAIN.format(file="reviews.csv") + " --model transformer --set model.heads=7",
        "8",
    ),
    BadInput("an unknown option", "train classify reviews.csv --modle han", "--model"),
    BadInput("an invalid budget", "train classify reviews.csv --budget soon", "2min"),
    BadInput(
        "two training lengths", "train classify reviews.csv --steps 2 --epochs 2", "one of epochs, steps or budget"
    ),
    BadInput("a run folder that exists", "train classify reviews.csv --steps 2 --out run", "--resume"),
    BadInput("nothing to resume", "train classify --resume --out nothing", "no such run folder"),
    BadInput("resumed with other settings", "train classify --resume --out run --lr 0.5", "other settings"),
    BadInput("an unknown optimizer", TRAIN.format(file="reviews.csv") + " --optimizer sgdd", "adamw"),
    BadInput("an unknown strategy", TRAIN.format(file="reviews.csv") + " --strategy dpp", "dpp"),
    BadInput("an unknown decay", TRAIN.format(file="reviews.csv") + " --set train.decay=cosin", "'cosine'"),
    BadInput("a negative seed", TRAIN.format(file="reviews.csv") + " --seed -1", "seed"),
    BadInput("a width of 0", TRAIN.format(file="reviews.csv") + " --set model.hidden=0", "hidden=0"),
    BadInput(
        "texts without words",
        TRAIN.format(file="marks.csv") + " --model tfidf",
        "empty vocabulary",
        write_file("marks.csv", "review,sentiment\n" + "!!!,good\n???,bad\n" * 9),
    ),
    BadInput("an --out that is not a run", TRAIN.format(file="reviews.csv") + " --out . --overwrite", "not a run"),
    BadInput(
        "an --out with an unrelated config.json",
        TRAIN.format(file="reviews.csv") + " --out broken --overwrite",
        "config.json",
        copy_run(write_file("config.json", '{"model_type": "bert"}')),
    ),
    BadInput(
        "an imported model instead of a run",
        "predict broken hello",
        "regard import",
        copy_run(write_file("config.json", '{"format": 2, "imported": {}}')),
    ),
    BadInput(
        "an incomplete config.json",
        "predict broken hello",
        "config.json",
        copy_run(write_file("config.json", '{"format": 2, "settings": {}}')),
    ),
    BadInput(
        "a settings file that is not UTF-8",
        TRAIN.format(file="reviews.csv") + " --config s.yaml",
        "s.yaml",
        write_file("s.yaml", b"seed: \xff\n"),
    ),
    BadInput("an empty text", "predict run ''", "empty"),
    BadInput(
        "a file name as the text",
        "predict run one.txt",
        "its name was not read as a text: use --file",
        write_file("one.txt", "We loved it.\n"),
    ),
    BadInput("no text to look at", "look run", "--file FILE"),
    BadInput(
        "folders train and test instead of classes",
        TRAIN.format(file="nest"),
        "each with neg and pos",
        write_texts(
            f"nest/{part}/{name}/{i}.txt" for part in ("train", "test") for name in ("neg", "pos") for i in "12"
        ),
    ),
    BadInput(
        "files of other types among texts (counted)",
        "train classify docs --steps 1",
        "skipped 3 files that are not text: .html, .1",
        write_texts(
            [f"docs/{name}/{i}" for name in ("neg", "pos") for i in ("1.txt", "2.txt", "x.html")] + ["docs/pos/note.1"]
        ),
        code=0,
    ),
    BadInput(
        "several labels in a cell (reported)",
        "train classify genres.csv --steps 1",
        "can have several labels, use --multi-label",
        write_file("genres.csv", "text,genres\n" + "".join(f"a film,{a}|{b}\n" for a in "pqrs" for b in "tuvw") * 2),
        code=0,
    ),
    BadInput("an empty corpus", f"{LANGUAGE} empty.txt", "no text", write_file("empty.txt", "")),
    BadInput(
        "a corpus shorter than one window",
        f"{LANGUAGE} short.txt",
        "data.block_size=256",
        write_file("short.txt", "A few words."),
    ),
    BadInput("no such corpus", f"{LANGUAGE} corpsu.txt", "'corpus.txt'", write_file("corpus.txt", "A few words.")),
    BadInput(
        "a model that does not support the objective",
        f"{LANGUAGE} corpus.txt --objective masked --model gpt",
        "Objectives of gpt: causal, span",
        write_file("corpus.txt", "A few words."),
    ),
    BadInput(
        "an option of another objective",
        f"{LANGUAGE} corpus.txt --whole-words",
        "corruption.whole_words",
        write_file("corpus.txt", "A few words."),
    ),
    BadInput(
        "a warm start from another task",
        f"{LANGUAGE} corpus.txt --from run",
        "It can be the warm start of a han of 'classify'",
        write_file("corpus.txt", "A few words."),
    ),
    BadInput(
        "a window longer than the positions",
        f"{LANGUAGE} corpus.txt --block-size 5000",
        "learned:length=5000",
        write_file("corpus.txt", "A few words."),
    ),
    BadInput(
        "a broken image (skipped and counted)",
        CAPTION,
        "1 images are damaged and are skipped: d.jpg",
        write_images("d.jpg", b"\xff\xd8 and no more"),
        code=0,
    ),
    BadInput(
        "a truncated image", CAPTION, "are skipped: d.png", write_images("d.png", encode_image("d.png")[:60]), code=0
    ),
    BadInput(
        "a gray image (converted)",
        CAPTION,
        "1 images are grayscale",
        write_images("d.png", encode_image("d.png", mode="L")),
        code=0,
    ),
    BadInput(
        "a CMYK image (converted)",
        CAPTION,
        "1 images are CMYK",
        write_images("d.jpg", encode_image("d.jpg", mode="CMYK", color=(9, 9, 9, 9))),
        code=0,
    ),
    BadInput(
        "an animated image (first frame)",
        CAPTION,
        "the first frame is used: d.gif",
        write_images("d.gif", animated_image()),
        code=0,
    ),
    BadInput(
        "an image of 3,600 million pixels (skipped and counted)",
        CAPTION,
        "more than 64,000,000 pixels are skipped: d.png",
        write_images("d.png", huge_image()),
        code=0,
    ),
    BadInput("no readable image", CAPTION, "no image of", write_images("d.png", huge_image(), keep=False)),
    BadInput(
        "a caption without an image (counted)",
        CAPTION,
        "1 captions have no image and are skipped: gone.png",
        write_images(lines="gone.png\ta blue ring\n"),
        code=0,
    ),
    BadInput(
        "an empty caption (counted)",
        CAPTION,
        "1 captions are empty and are skipped: a.png",
        write_images(lines="a.png\t . \n"),
        code=0,
    ),
    BadInput(
        "captions of other images",
        CAPTION,
        "no caption of",
        combine(write_images(), write_file("captions.tsv", "x.png\ta ring\n")),
    ),
    BadInput("captions without a tab", CAPTION, "a tab and a caption", write_images(lines="a.png a red square\n")),
    BadInput("images without captions", "train caption images", "IMAGES CAPTIONS", write_images()),
    BadInput("images without classes", "train classify images", "at least two classes", write_images()),
    BadInput(
        "a truncated zip file",
        CAPTION.replace("images", "p.zip"),
        "not a zip",
        combine(write_images(), write_file("p.zip", b"PK\3\4 no more")),
    ),
    BadInput(
        "features that need pickle",
        CAPTION.replace("images", "features.npz"),
        "are not numeric",
        write_pickled_features,
    ),
    BadInput(
        "a corpus that is not UTF-8", f"{LANGUAGE} latin.txt", "UTF-8", write_file("latin.txt", b"caf\xe9 " * 900)
    ),
]
