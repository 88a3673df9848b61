"""Read texts and labels from a table, from lines or from a folder, and say what is wrong with what cannot be read.

Known forms: .csv, .tsv, .jsonl / .ndjson, .txt (`label text` a line), each also with .gz; .parquet; a folder with one
subfolder of text files per class.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from regard.data import image_files
from regard.errors import UserError, did_you_mean

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".txt", ".parquet")
TEXT_NAMES = ("text", "review", "sentence", "content", "document", "comment")
LABEL_NAMES = (
    *("label", "labels", "sentiment", "class", "category", "target", "rating", "y"),
    *("topic", "genres", "tags"),  # may also stand beside what is to be learnt
)
TEXT_FILES = (".txt", ".text", ".md", "")
PARTS = ("train", "training", "valid", "validation", "val", "dev", "test", "testing")
MAX_BYTES = 2_000_000  # of one document that is read by itself


@dataclass(frozen=True)
class Table:
    """The rows that can be used, and in `notes`, in words for the user, what was guessed and what was left out."""

    texts: list[str]
    labels: list[str] | None
    notes: list[str]
    fingerprint: str
    rows: int
    read_columns: tuple[str | None, str | None] = (None, None)
    """Of the text and of the label, named or guessed, where there are columns."""
    kept: list[int] = field(default_factory=list)
    """Which rows of the file these are, from 0."""
    names: list[str] = field(default_factory=list)
    """Of a folder the file of each text, from the folder on; empty otherwise."""


def read_table(
    path: str | Path,
    *,
    text: str | None = None,
    label: str | None = None,
    labelled: bool = True,
    many: bool = False,
) -> Table:
    """Read a file or folder. Columns not named are guessed; with `labelled=False` no labels are looked for; with `many`
    a cell may hold several labels, or none."""
    path = _there(path)
    if path.is_dir():
        return _folder(path, labelled)
    kind, _ = _kind(path)
    raw, fingerprint = read_contents(path)
    notes: list[str] = []
    if kind == ".txt":
        texts, labels = _lines(decode_utf8(raw, path), labelled)
        return _table(path, texts, labels, notes, fingerprint, many)
    frame = _frame(raw, kind, path, [n for n in (text, label) if n])
    text, label = _choose(frame, path, text, label, labelled, notes)
    texts = _strings(frame[text], path)
    labels = _labels(frame[label], path, many) if label is not None else None
    return replace(_table(path, texts, labels, notes, fingerprint, many), columns=(text, label))


def read_contents(path: str | Path, *, blank: bool = False) -> tuple[bytes, str]:
    """The bytes of a file that is not empty, unzipped where its name ends in .gz, and the file's fingerprint. Blank
    lines alone are as good as nothing, unless `blank`."""
    path = _there(path)
    raw = _bytes(path)
    fingerprint = hashlib.sha256(raw).hexdigest()
    if path.suffix.lower() == ".gz":
        raw = _unzip(raw, path)
    if not (raw if blank else raw.strip()):
        raise UserError(f"{path} is empty; a file with at least one text is wanted")
    return raw, fingerprint


def read_document(path: str | Path) -> str:
    """The whole of one file as one text, without the end of its last line."""
    path = _there(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder, and the file of one text is wanted; name one of its files")
    raw = _bytes(path, MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise UserError(f"{path} has more than {MAX_BYTES:,} bytes, which is too much for one text; cut it")
    if not raw.strip():
        raise UserError(f"{path} is empty; a file with one text is wanted")
    return decode_utf8(raw, path).rstrip("\r\n")


def read_columns(path: str | Path, named: Sequence[str] = ()) -> tuple[dict[str, list[str | None]], str]:
    """The columns of a table as text, in their order, and the file's fingerprint. Names that are numbers say that it
    has no header."""
    path = Path(path)
    kind, _ = _kind(path)
    raw, fingerprint = read_contents(path)
    frame = _frame(raw, kind, path, list(named))
    return {
        name: _strings(frame[name], path) for name in (named or frame.columns) if name in frame.columns
    }, fingerprint


def list_classes(labels: Sequence[str] | None) -> list[str]:
    """The classes in order (numbers by size); training on fewer than two is an error."""
    if not labels:
        raise UserError("no labels were given; training a classifier wants a label for each text")
    classes = sorted(set(labels))
    if len(classes) < 2:
        raise UserError(
            f"all {len(labels)} rows have the same label {classes[0]!r}; training a classifier wants "
            "two classes or more: name another label column, or add rows of another class"
        )
    return sorted(classes, key=int) if all(re.fullmatch(r"-?[0-9]{1,18}", c) for c in classes) else classes


# Bytes


def _there(path: str | Path) -> Path:
    path = Path(path)
    try:
        there = path.exists()
    except OSError as problem:  # a folder on the way may not be entered, or the name is too long
        raise UserError(f"cannot read {_short(str(path), 200)}: {problem.strerror or problem}") from None
    if not there:
        raise UserError(f"no such file: {str(path)!r}{_hint(path)}")
    return path


def _hint(path: Path) -> str:
    try:
        names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    except OSError:
        names = []
    near = did_you_mean(path.name, names)
    if near.startswith("did you mean"):
        return f"; {near}"
    return "" if path.parent.is_dir() else f" (there is no folder {str(path.parent)!r} either)"


def _kind(path: Path) -> tuple[str, bool]:
    zipped = path.suffix.lower() == ".gz"
    kind = (Path(path.stem) if zipped else path).suffix.lower()
    if kind not in SUFFIXES or (zipped and kind == ".parquet"):
        raise UserError(
            f"{path.name!r} has the ending {''.join(path.suffixes[-2:]) or '(none)'!r}, which is not known; known: "
            f"{', '.join(SUFFIXES)}, each but .parquet also with .gz, or a folder with one subfolder "
            "of text files per class"
        )
    return kind, zipped


def _bytes(path: Path, most: int | None = None) -> bytes:
    """All of a file, or its first bytes."""
    try:
        if most is None:
            return path.read_bytes()
        with path.open("rb") as file:
            return file.read(most)
    except OSError as problem:
        raise UserError(
            f"cannot read {path}: {problem.strerror or problem}; check its permissions and its disk"
        ) from None


def _unzip(raw: bytes, path: Path) -> bytes:
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as problem:
        raise UserError(
            f"{path} ends in .gz and is not a whole gzip file ({problem}); fetch or compress it again"
        ) from None


def decode_utf8(raw: bytes, path: Path | str) -> str:
    """UTF-8 to text, or an error that says where `path` is broken."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise UserError(f"{path} is UTF-16, and UTF-8 is wanted; convert it: iconv -f utf-16 -t utf-8") from None
        at = problem.start + (3 if raw.startswith(b"\xef\xbb\xbf") else 0)
        line = raw.count(b"\n", 0, at) + 1
        raise UserError(
            f"{path} is not valid UTF-8: byte 0x{raw[at]:02x} at offset {at}, line {line}; "
            "convert it, for example: iconv -f latin1 -t utf-8"
        ) from None


# Lines and folders


def _lines(content: str, labelled: bool) -> tuple[list[str | None], list[str | None] | None]:
    lines = content.removesuffix("\n").split("\n")
    if not labelled:
        return [line.rstrip("\r") for line in lines], None
    fields = [[*line.split(None, 1), "", ""][:2] for line in lines]
    return [field[1].rstrip() for field in fields], [field[0] for field in fields]


def _folder(path: Path, labelled: bool) -> Table:
    try:
        every = sorted(p for p in path.rglob("*") if not _hidden(p.relative_to(path)))
        files, folders = [p for p in every if p.is_file()], [p for p in every if p.is_dir()]
    except OSError as problem:
        raise UserError(f"cannot read the folder {path}: {problem.strerror or problem}") from None
    if labelled:
        files = [p for p in files if p.parent != path]
    found = [p for p in files if p.suffix.lower() in TEXT_FILES]
    others = [p for p in files if p.suffix.lower() not in TEXT_FILES]
    if not found:
        held = f"; it holds {len(others):,} files of other kinds: {_endings(others)}" if others else ""
        pictures = ". It holds pictures, whose task is images: regard train images" if image_files.contains_images(path) else ""
        raise UserError(
            f"the folder {path} has no {'subfolders of text files' if labelled else 'text files'}; "
            f"wanted: {path}/CLASS/NAME.txt, one subfolder per class{pictures or held}"
        )
    classes = {p.name: {q.name for q in folders if q.parent == p} for p in folders if p.parent == path}
    notes = _nested(path, classes, any(p.parent.parent == path for p in files)) if labelled else []
    digest, texts, names = hashlib.sha256(), [], []
    for file in found:
        name, raw = file.relative_to(path).as_posix(), _bytes(file)
        digest.update(f"{name}\0{len(raw)}\0".encode("utf-8", "surrogateescape") + raw)
        texts.append(decode_utf8(raw, file))
        names.append(name)
    labels = [name.split("/")[0] for name in names] if labelled else None
    if labels is not None and (bare := classes.keys() - set(labels)):
        notes.append(f"subfolders without text files, left out: {', '.join(sorted(bare))}")
    if others:
        notes.append(f"{len(others):,} files of other kinds left out: {_endings(others)}")
    table = _table(path, texts, labels, notes, digest.hexdigest())
    return replace(table, names=[names[i] for i in table.row_ids])


def _hidden(name: Path) -> bool:
    return any(part.startswith(".") for part in name.parts)


def _endings(files: Sequence[Path], most: int = 5) -> str:
    """The endings of files, the most frequent first."""
    endings = [ending for ending, _ in Counter(file.suffix for file in files).most_common()]
    return ", ".join([*endings[:most], *["..."] * (len(endings) > most)])


def _nested(path: Path, classes: dict[str, set[str]], mixed: bool) -> list[str]:
    """Folders of parts, train/pos and test/pos, are no classes; others that hold the same subfolders may be, which is
    noted. `classes`: the subfolders of each; `mixed`: whether files stand beside these."""
    parts = sorted((name for name in classes if name.lower() in PARTS), key=lambda name: PARTS.index(name.lower()))
    if len(parts) > 1 or len(parts) == len(classes) == 1:
        within = sorted(set.intersection(*(classes[part] for part in parts)))
        each, valid = ("each with", f", and --valid {path}/{parts[1]}") if len(parts) > 1 else ("with", "")
        if len(within) > 1:
            raise UserError(f"{path} holds {_and(parts)}, {each} {_and(within)}: name {path}/{parts[0]}{valid}")
    names, (first, *rest) = sorted(classes), classes.values()
    if mixed or not rest or len(first) < 2 or any(each != first for each in rest):
        return []
    within = _and(sorted(first))
    return [
        f"{_and(names)} are the classes, and each holds {within} and nothing else; for classes {within} name "
        f"{path}/{names[0]}"
    ]


# Tables


def _frame(raw: bytes, kind: str, path: Path, named: list[str]) -> pl.DataFrame:
    if kind == ".parquet":
        try:
            return pl.read_parquet(io.BytesIO(raw))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as problem:
            raise UserError(f"{path} is not a readable Parquet file: {_first_line(problem)}") from None
    content = decode_utf8(raw, path)
    if kind in (".jsonl", ".ndjson"):
        return _jsonl(content, path)
    separator, quote = ("\t", None) if kind == ".tsv" else (",", '"')
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    top = content.lstrip("\n")[:100_000].split("\n", 1)[0]
    first = next(csv.reader([top.rstrip("\r")], delimiter=separator, quoting=quoting), [])
    headed = not _by_number(named, first)
    data = content.encode() if raw.startswith(b"\xef\xbb\xbf") else raw
    try:
        frame = pl.read_csv(
            io.BytesIO(data), separator=separator, quote_char=quote, has_header=headed, infer_schema=False
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        # polars refuses stray quotes, which Python's own reader takes as they are; and it names no line
        frame = _slow_csv(content, separator, quote, headed, path)
    return frame if headed else frame.rename(dict(zip(frame.columns, map(str, range(frame.width)), strict=True)))


def _by_number(named: list[str], first: list[str]) -> bool:
    """Whether columns are chosen by number, the table having no header. The first row of data may hold such numbers
    as cells: it is a header only if each stands in its own place, or is no place at all, and all cells look like names.
    """
    if not named or not all(re.fullmatch(r"[0-9]+", name) for name in named):
        return False
    if not set(named) <= set(first):
        return any(int(name) < len(first) for name in named)
    placed = all(int(name) >= len(first) or first[int(name)] == name for name in named)
    return not (placed and len(set(first)) == len(first) and all(0 < len(cell) <= 40 for cell in first))


def _slow_csv(content: str, separator: str, quote: str | None, headed: bool, path: Path) -> pl.DataFrame:
    csv.field_size_limit(sys.maxsize)
    end, rows, begun = "\0end\0", [], 1
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    lines = [*io.StringIO(content, newline="\n"), "\n" * (not content.endswith("\n")), end]
    reader = csv.reader((line for line in lines if line), delimiter=separator, quotechar=quote, quoting=quoting)
    last: list[str] = []
    for last in reader:
        if rows and len(last) > len(rows[0]):
            raise UserError(
                f"{path}, line {begun}: {len(last)} fields where the first line has {len(rows[0])}; "
                f"a text that holds {separator!r} must stand in double quotes"
            )
        if last == [end]:
            break
        if end in last[-1:] or any(end in cell for cell in last):
            raise UserError(f'{path}, line {begun}: a double quote (") is opened and never closed')
        rows.append(last)
        begun = reader.line_num + 1
    width = len(rows[0])
    names = rows.pop(0) if headed else [str(i) for i in range(width)]
    if len(set(names)) < width:
        raise UserError(f"{path} has two columns of the same name: {_list(names)}")
    return pl.DataFrame(
        [row + [""] * (width - len(row)) for row in rows], schema=dict.fromkeys(names, pl.String), orient="row"
    )


def _jsonl(content: str, path: Path) -> pl.DataFrame:
    # line by line, as polars turns a value of another type than the first ones into null without a word
    records: list[dict[str, Any]] = []
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise UserError(f"{path}, line {number} is not valid JSON: {problem}") from None
        if not isinstance(record, dict):
            raise UserError(
                f'{path}, line {number}: an object such as {{"text": ..., "label": ...}} is wanted, not {line[:40]!r}'
            )
        records.append(record)
    names = list(dict.fromkeys(name for record in records for name in record))
    return pl.DataFrame({n: [_cell(r.get(n)) for r in records] for n in names}, schema=dict.fromkeys(names, pl.String))


def _cell(value: Any) -> str | None:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # JSON can spell half a character, which becomes "?"
    if value is None:
        return value
    return json.dumps(value, ensure_ascii=False)


def _choose(
    frame: pl.DataFrame, path: Path, text: str | None, label: str | None, labelled: bool, notes: list[str]
) -> tuple[str, str | None]:
    """The columns of the text and the label; what is guessed goes to the notes."""
    names = frame.columns
    for role, name in (("text", text), ("label", label if labelled else None)):
        if name is not None and name not in names:
            raise UserError(
                f"{path} has no {role} column {name!r}; its columns are: {_list(names)}{_near(name, names)}"
            )
    by_name = {name.lower(): name for name in reversed(names)}
    if labelled and label is None:
        label = next((by_name[n] for n in LABEL_NAMES if n in by_name and by_name[n] != text), None)
        if label is None:
            raise UserError(
                f"{path}: which column holds the label? Its columns are: {_list(names)}; name one with --label NAME "
                "(label=... in Python), by its number from 0 if the file has no header line"
            )
        notes.append(f"label column not named: took {label!r}")
    if text is None:
        text = next((by_name[n] for n in TEXT_NAMES if n in by_name and by_name[n] != label), None) or _longest(
            frame, label
        )
        if text is None:
            raise UserError(
                f"{path}: no column looks like text; its columns are: {_list(names)}; name one with "
                f"{'--text' if labelled else '--column'} NAME (text=... in Python)"
            )
        notes.append(f"text column not named: took {_short(text)!r}")
    if labelled and text == label:
        raise UserError(f"the column {text!r} is named both as text and as label; its columns are: {_list(names)}")
    return text, label if labelled else None


def _longest(frame: pl.DataFrame, label: str | None) -> str | None:
    head = frame.head(10_000)
    strings = [n for n in head.columns if n != label and head[n].dtype == pl.String]
    lengths = {n: head[n].str.len_chars().mean() for n in strings}
    return max(strings, key=lambda n: lengths[n] or 0.0, default=None)  # type: ignore[arg-type,return-value]


def _strings(column: pl.Series, path: Path) -> list[str | None]:
    if column.dtype.is_nested() or column.dtype == pl.Binary:
        raise UserError(f"{path}: the column {column.name!r} holds {column.dtype}, and text is wanted")
    return column.cast(pl.String).to_list()


def _labels(column: pl.Series, path: Path, many: bool) -> list[str | None]:
    """Labels are names: 1, 1.0 and "1" are the same one, whichever format they were saved in. Lists of them are kept as
    JSON."""
    if many and isinstance(column.dtype, pl.List | pl.Array):
        return [json.dumps(row or [], ensure_ascii=False) for row in column.to_list()]
    cells = _strings(column, path)
    if column.dtype.is_float():
        cells = [None if cell == "NaN" else cell for cell in cells]
    return [cell and re.sub(r"^(-?[0-9]+)\.0+$", r"\1", cell.strip()) for cell in cells]


def _table(
    path: Path,
    texts: Sequence[str | None],
    labels: Sequence[str | None] | None,
    notes: list[str],
    fingerprint: str,
    many: bool = False,
) -> Table:
    """Leave out rows with an empty cell, and count them; where there may be many labels there may be none."""
    has_text = [bool(t and not t.isspace()) for t in texts]
    has_label = [True] * len(texts) if labels is None or (many and any(labels)) else [bool(lab) for lab in labels]
    keep = [i for i, both in enumerate(zip(has_text, has_label, strict=True)) if all(both)]
    if not texts:
        raise UserError(f"{path} has a header and no rows; at least one text is wanted")
    if not any(has_text):
        raise UserError(f"{path}: all {len(texts)} texts are empty; is it the right column?")
    if not any(has_label):
        raise UserError(f"{path}: all {len(texts)} labels are empty; is it the right column?")
    if not keep:
        raise UserError(f"{path}: each of the {len(texts)} rows lacks its text or its label")
    no_text, no_label = (
        len(texts) - sum(has_text),
        sum(t and not lab for t, lab in zip(has_text, has_label, strict=True)),
    )
    for count, what in ((no_text, "text"), (no_label, "label")):
        if count:
            notes.append(f"{count} of {len(texts)} rows skipped: empty {what}")
    kept_labels = None if labels is None else [labels[i] or "" for i in keep]
    return Table([texts[i] or "" for i in keep], kept_labels, notes, fingerprint, len(texts), kept=keep)


# Words for messages


def _short(name: str, width: int = 40) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"


def _list(names: Sequence[str]) -> str:
    return ", ".join(repr(_short(n)) for n in names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def _and(names: Sequence[str], most: int = 10) -> str:
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else "".join(shown)


def _near(name: str, names: list[str]) -> str:
    near = did_you_mean(name, names)
    return f"; {near}" if near.startswith("did you mean") else ""


def _first_line(problem: BaseException) -> str:
    return str(problem).strip().split("\n", 1)[0]
