"""Read texts and labels from a table, from lines or from a folder.

Supported: .csv, .tsv, .jsonl / .ndjson, .txt (lines of `label text`), each also with .gz; .parquet; a folder with one
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
    *("topic", "genres", "tags"),  # last: these may be additional columns
)
TEXT_FILES = (".txt", ".text", ".md", "")
PARTS = ("train", "training", "valid", "validation", "val", "dev", "test", "testing")
MAX_BYTES = 2_000_000  # of a single document


@dataclass(frozen=True)
class Table:
    """The usable rows of a table or folder.

    Attributes:
        texts: The texts.
        labels: The label of each text, or None.
        notes: Messages about guessed columns and skipped rows.
        fingerprint: Hash of the contents.
        num_rows: Number of rows of the file, including skipped ones.
        columns: Names of the text and label columns, given or guessed.
        row_ids: Row number in the file of each text, from 0.
        file_names: For a folder, the path of each text relative to the folder.
    """

    texts: list[str]
    labels: list[str] | None
    notes: list[str]
    fingerprint: str
    num_rows: int
    columns: tuple[str | None, str | None] = (None, None)
    row_ids: list[int] = field(default_factory=list)
    file_names: list[str] = field(default_factory=list)


def read_table(
    path: str | Path,
    *,
    text: str | None = None,
    label: str | None = None,
    has_labels: bool = True,
    multilabel: bool = False,
) -> Table:
    """Read texts and labels from a file or folder.

    Args:
        path: The file or folder.
        text: Column of the texts; guessed if omitted.
        label: Column of the labels; guessed if omitted.
        has_labels: Whether to read labels.
        multilabel: Whether a cell may contain several labels, or none.
    """
    path = _check_path(path)
    if path.is_dir():
        return _read_folder(path, has_labels)
    suffix = _find_suffix(path)
    raw, fingerprint = read_contents(path)
    notes: list[str] = []
    if suffix == ".txt":
        texts, labels = _parse_lines(decode_utf8(raw, path), has_labels)
        return _build_table(path, texts, labels, notes, fingerprint, multilabel)
    frame = _parse_table(raw, suffix, path, [n for n in (text, label) if n])
    text, label = _choose_columns(frame, path, text, label, has_labels, notes)
    texts = _read_strings(frame[text], path)
    labels = _read_labels(frame[label], path, multilabel) if label is not None else None
    return replace(_build_table(path, texts, labels, notes, fingerprint, multilabel), columns=(text, label))


def read_contents(path: str | Path, *, allow_blank: bool = False) -> tuple[bytes, str]:
    """Read a file, unzip it if its name ends in .gz, and hash it. An empty or blank file is an error.

    Args:
        path: The file.
        allow_blank: Whether a file of blank lines is allowed.

    Returns:
        The unzipped bytes, and the fingerprint of the file.
    """
    path = _check_path(path)
    raw = _read_bytes(path)
    fingerprint = hashlib.sha256(raw).hexdigest()
    if path.suffix.lower() == ".gz":
        raw = _unzip(raw, path)
    if not (raw if allow_blank else raw.strip()):
        raise UserError(f"{path} is empty; expected at least one text")
    return raw, fingerprint


def read_document(path: str | Path) -> str:
    """Read a whole file as one text, without the line end of its last line."""
    path = _check_path(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder; expected a file with one text")
    raw = _read_bytes(path, MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise UserError(f"{path} has more than {MAX_BYTES:,} bytes, which is too long for one text; split it")
    if not raw.strip():
        raise UserError(f"{path} is empty; expected a file with one text")
    return decode_utf8(raw, path).rstrip("\r\n")


def read_columns(path: str | Path, names: Sequence[str] = ()) -> tuple[dict[str, list[str | None]], str]:
    """Read columns of a table as strings.

    Args:
        path: The table.
        names: Names of the columns; default: all. Numbers mean that the table has no header.

    Returns:
        The columns by name, and the fingerprint of the file. Columns that do not exist are omitted.
    """
    path = Path(path)
    raw, fingerprint = read_contents(path)
    frame = _parse_table(raw, _find_suffix(path), path, list(names))
    columns = [name for name in (names or frame.columns) if name in frame.columns]
    return {name: _read_strings(frame[name], path) for name in columns}, fingerprint


def list_classes(labels: Sequence[str] | None) -> list[str]:
    """Return the sorted classes, numbers in numeric order. Fewer than two classes are an error."""
    if not labels:
        raise UserError("no labels; training a classifier requires a label for each text")
    classes = sorted(set(labels))
    if len(classes) < 2:
        raise UserError(
            f"all {len(labels)} rows have the same label {classes[0]!r}; training a classifier requires at least two "
            "classes: choose another label column, or add rows of another class"
        )
    return sorted(classes, key=int) if all(re.fullmatch(r"-?[0-9]{1,18}", c) for c in classes) else classes


# Bytes


def _check_path(path: str | Path) -> Path:
    path = Path(path)
    try:
        exists = path.exists()
    except OSError as error:  # permission denied, or the name is too long
        raise UserError(f"cannot read {_shorten(str(path), 200)}: {error.strerror or error}") from None
    if not exists:
        raise UserError(f"no such file: {str(path)!r}{_suggest_file(path)}")
    return path


def _suggest_file(path: Path) -> str:
    try:
        names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    except OSError:
        names = []
    suggestion = _suggest_name(path.name, names)
    return suggestion or ("" if path.parent.is_dir() else f" (the folder {str(path.parent)!r} does not exist)")


def _find_suffix(path: Path) -> str:
    """Return the suffix without .gz, or raise a UserError if it is not supported."""
    is_zipped = path.suffix.lower() == ".gz"
    suffix = (Path(path.stem) if is_zipped else path).suffix.lower()
    if suffix not in SUFFIXES or (is_zipped and suffix == ".parquet"):
        raise UserError(
            f"{path.name!r} has the unsupported suffix {''.join(path.suffixes[-2:]) or '(none)'!r}; supported: "
            f"{', '.join(SUFFIXES)}, each except .parquet also with .gz, or a folder with one subfolder of text files "
            "per class"
        )
    return suffix


def _read_bytes(path: Path, limit: int = -1) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check its permissions and its disk") from None


def _unzip(raw: bytes, path: Path) -> bytes:
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(
            f"{path} ends in .gz but is not a complete gzip file ({error}); download or compress it again"
        ) from None


def decode_utf8(raw: bytes, path: Path | str) -> str:
    """Decode UTF-8. Raises a UserError with the offset and line of an invalid byte of `path`."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise UserError(f"{path} is UTF-16, expected UTF-8; convert it: iconv -f utf-16 -t utf-8") from None
        offset = error.start + (3 if raw.startswith(b"\xef\xbb\xbf") else 0)
        line = raw.count(b"\n", 0, offset) + 1
        raise UserError(
            f"{path} is not valid UTF-8: byte 0x{raw[offset]:02x} at offset {offset}, line {line}; "
            "convert it, for example: iconv -f latin1 -t utf-8"
        ) from None


# Lines and folders


def _parse_lines(content: str, has_labels: bool) -> tuple[list[str | None], list[str | None] | None]:
    lines = content.removesuffix("\n").split("\n")
    if not has_labels:
        return [line.rstrip("\r") for line in lines], None
    fields = [[*line.split(None, 1), "", ""][:2] for line in lines]
    return [field[1].rstrip() for field in fields], [field[0] for field in fields]


def _read_folder(path: Path, has_labels: bool) -> Table:
    try:
        paths = sorted(p for p in path.rglob("*") if not _is_hidden(p.relative_to(path)))
        files, folders = [p for p in paths if p.is_file()], [p for p in paths if p.is_dir()]
    except OSError as error:
        raise UserError(f"cannot read the folder {path}: {error.strerror or error}") from None
    if has_labels:
        files = [p for p in files if p.parent != path]
    text_files = [p for p in files if p.suffix.lower() in TEXT_FILES]
    other_files = [p for p in files if p.suffix.lower() not in TEXT_FILES]
    if not text_files:
        if image_files.contains_images(path):
            hint = ". The folder contains images; train on them with: regard train images"
        elif other_files:
            hint = f"; it contains {len(other_files):,} other files: {_list_suffixes(other_files)}"
        else:
            hint = ""
        raise UserError(
            f"the folder {path} has no {'subfolders of text files' if has_labels else 'text files'}; "
            f"expected {path}/CLASS/NAME.txt, one subfolder per class{hint}"
        )
    classes = {p.name: {q.name for q in folders if q.parent == p} for p in folders if p.parent == path}
    notes = _check_nesting(path, classes, any(p.parent.parent == path for p in files)) if has_labels else []
    digest, texts, names = hashlib.sha256(), [], []
    for file in text_files:
        name, raw = file.relative_to(path).as_posix(), _read_bytes(file)
        digest.update(f"{name}\0{len(raw)}\0".encode("utf-8", "surrogateescape") + raw)
        texts.append(decode_utf8(raw, file))
        names.append(name)
    labels = [name.split("/")[0] for name in names] if has_labels else None
    if labels is not None and (empty := classes.keys() - set(labels)):
        notes.append(f"skipped subfolders without text files: {', '.join(sorted(empty))}")
    if other_files:
        notes.append(f"skipped {len(other_files):,} files that are not text: {_list_suffixes(other_files)}")
    table = _build_table(path, texts, labels, notes, digest.hexdigest())
    return replace(table, file_names=[names[i] for i in table.row_ids])


def _is_hidden(name: Path) -> bool:
    return any(part.startswith(".") for part in name.parts)


def _list_suffixes(files: Sequence[Path], limit: int = 5) -> str:
    """List the suffixes of files, the most frequent first."""
    suffixes = [suffix for suffix, _ in Counter(file.suffix for file in files).most_common()]
    return ", ".join([*suffixes[:limit], *["..."] * (len(suffixes) > limit)])


def _check_nesting(path: Path, classes: dict[str, set[str]], has_files: bool) -> list[str]:
    """Check whether the classes are one level deeper, as in train/pos and test/pos.

    Args:
        path: The folder.
        classes: Names of the subfolders of each class.
        has_files: Whether a class contains files directly.

    Returns:
        A note if all classes have the same subfolders, which may be the classes.
    """
    parts = sorted((name for name in classes if name.lower() in PARTS), key=lambda name: PARTS.index(name.lower()))
    if len(parts) > 1 or len(parts) == len(classes) == 1:
        subfolders = sorted(set.intersection(*(classes[part] for part in parts)))
        each, valid = ("each with", f", and --valid {path}/{parts[1]}") if len(parts) > 1 else ("with", "")
        if len(subfolders) > 1:
            raise UserError(
                f"{path} contains {_join_names(parts)}, {each} {_join_names(subfolders)}; pass {path}/{parts[0]}{valid}"
            )
    names, (first, *others) = sorted(classes), classes.values()
    if has_files or not others or len(first) < 2 or any(other != first for other in others):
        return []
    subfolders = _join_names(sorted(first))
    return [
        f"the classes are {_join_names(names)}, and each contains only {subfolders}; for classes {subfolders} pass "
        f"{path}/{names[0]}"
    ]


# Tables


def _parse_table(raw: bytes, suffix: str, path: Path, columns: list[str]) -> pl.DataFrame:
    if suffix == ".parquet":
        try:
            return pl.read_parquet(io.BytesIO(raw))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            reason = str(error).strip().split("\n", 1)[0]
            raise UserError(f"{path} is not a readable Parquet file: {reason}") from None
    content = decode_utf8(raw, path)
    if suffix in (".jsonl", ".ndjson"):
        return _parse_jsonl(content, path)
    separator, quote = ("\t", None) if suffix == ".tsv" else (",", '"')
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    first_line = content.lstrip("\n")[:100_000].split("\n", 1)[0]
    first_row = next(csv.reader([first_line.rstrip("\r")], delimiter=separator, quoting=quoting), [])
    has_header = not _are_column_numbers(columns, first_row)
    data = content.encode() if raw.startswith(b"\xef\xbb\xbf") else raw
    try:
        frame = pl.read_csv(
            io.BytesIO(data), separator=separator, quote_char=quote, has_header=has_header, infer_schema=False
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        # polars rejects stray quotes, which Python's csv module accepts, and its errors have no line numbers
        frame = _parse_csv_slowly(content, separator, quote, has_header, path)
    return frame if has_header else frame.rename(dict(zip(frame.columns, map(str, range(frame.width)), strict=True)))


def _are_column_numbers(columns: list[str], first_row: list[str]) -> bool:
    """Return whether columns are chosen by number, so that the table has no header.

    The first row of data may contain these numbers as cells. It is a header only if each number is in its own column or
    beyond the last one, and all cells look like names.
    """
    if not columns or not all(re.fullmatch(r"[0-9]+", name) for name in columns):
        return False
    width = len(first_row)
    if not set(columns) <= set(first_row):
        return any(int(name) < width for name in columns)
    in_own_column = all(int(name) >= width or first_row[int(name)] == name for name in columns)
    return not (in_own_column and len(set(first_row)) == width and all(0 < len(cell) <= 40 for cell in first_row))


def _parse_csv_slowly(content: str, separator: str, quote: str | None, has_header: bool, path: Path) -> pl.DataFrame:
    csv.field_size_limit(sys.maxsize)
    end, rows, line = "\0end\0", [], 1
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    lines = [*io.StringIO(content, newline="\n"), "\n" * (not content.endswith("\n")), end]
    reader = csv.reader((text for text in lines if text), delimiter=separator, quotechar=quote, quoting=quoting)
    for row in reader:
        if rows and len(row) > len(rows[0]):
            raise UserError(
                f"{path}, line {line}: {len(row)} fields, but the first line has {len(rows[0])}; a text that contains "
                f"{separator!r} must be in double quotes"
            )
        if row == [end]:
            break
        if any(end in cell for cell in row):
            raise UserError(f'{path}, line {line}: a double quote (") is opened and never closed')
        rows.append(row)
        line = reader.line_num + 1
    width = len(rows[0])
    names = rows.pop(0) if has_header else [str(i) for i in range(width)]
    if len(set(names)) < width:
        raise UserError(f"{path} has two columns of the same name: {_quote_names(names)}")
    return pl.DataFrame(
        [row + [""] * (width - len(row)) for row in rows], schema=dict.fromkeys(names, pl.String), orient="row"
    )


def _parse_jsonl(content: str, path: Path) -> pl.DataFrame:
    # line by line, because polars silently replaces values of another type than the first ones by null
    records: list[dict[str, Any]] = []
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}, line {number} is not valid JSON: {error}") from None
        if not isinstance(record, dict):
            raise UserError(
                f'{path}, line {number}: expected an object such as {{"text": ..., "label": ...}}, got {line[:40]!r}'
            )
        records.append(record)
    names = list(dict.fromkeys(name for record in records for name in record))
    return pl.DataFrame(
        {n: [_format_cell(r.get(n)) for r in records] for n in names}, schema=dict.fromkeys(names, pl.String)
    )


def _format_cell(value: Any) -> str | None:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # a lone surrogate becomes "?"
    if value is None:
        return value
    return json.dumps(value, ensure_ascii=False)


def _choose_columns(
    frame: pl.DataFrame, path: Path, text: str | None, label: str | None, has_labels: bool, notes: list[str]
) -> tuple[str, str | None]:
    """Return the columns of text and label; guesses are added to the notes."""
    names = frame.columns
    for role, name in (("text", text), ("label", label if has_labels else None)):
        if name is not None and name not in names:
            raise UserError(
                f"{path} has no {role} column {name!r}; its columns are: {_quote_names(names)}"
                f"{_suggest_name(name, names)}"
            )
    by_lowercase = {name.lower(): name for name in reversed(names)}
    if has_labels and label is None:
        label = next((by_lowercase[n] for n in LABEL_NAMES if n in by_lowercase and by_lowercase[n] != text), None)
        if label is None:
            raise UserError(
                f"{path}: which column is the label? Its columns are: {_quote_names(names)}; choose one with --label "
                "NAME (label=... in Python), or by its number from 0 if the file has no header"
            )
        notes.append(f"using {label!r} as the label column")
    if text is None:
        text = next((by_lowercase[n] for n in TEXT_NAMES if n in by_lowercase and by_lowercase[n] != label), None)
        text = text or _find_longest_column(frame, label)
        if text is None:
            raise UserError(
                f"{path}: no column looks like text; its columns are: {_quote_names(names)}; choose one with "
                f"{'--text' if has_labels else '--column'} NAME (text=... in Python)"
            )
        notes.append(f"using {_shorten(text)!r} as the text column")
    if has_labels and text == label:
        raise UserError(f"the column {text!r} is both text and label; the columns are: {_quote_names(names)}")
    return text, label if has_labels else None


def _find_longest_column(frame: pl.DataFrame, label: str | None) -> str | None:
    head = frame.head(10_000)
    strings = [n for n in head.columns if n != label and head[n].dtype == pl.String]
    lengths = {n: head[n].str.len_chars().mean() for n in strings}
    return max(strings, key=lambda n: lengths[n] or 0.0, default=None)  # type: ignore[arg-type,return-value]


def _read_strings(column: pl.Series, path: Path) -> list[str | None]:
    if column.dtype.is_nested() or column.dtype == pl.Binary:
        raise UserError(f"{path}: the column {column.name!r} has the type {column.dtype}, expected text")
    return column.cast(pl.String).to_list()


def _read_labels(column: pl.Series, path: Path, multilabel: bool) -> list[str | None]:
    """Read labels as strings: 1, 1.0 and "1" are the same label. Lists of labels become JSON."""
    if multilabel and isinstance(column.dtype, pl.List | pl.Array):
        return [json.dumps(row or [], ensure_ascii=False) for row in column.to_list()]
    cells = _read_strings(column, path)
    if column.dtype.is_float():
        cells = [None if cell == "NaN" else cell for cell in cells]
    return [cell and re.sub(r"^(-?[0-9]+)\.0+$", r"\1", cell.strip()) for cell in cells]


def _build_table(
    path: Path,
    texts: Sequence[str | None],
    labels: Sequence[str | None] | None,
    notes: list[str],
    fingerprint: str,
    multilabel: bool = False,
) -> Table:
    """Skip and count rows with an empty text or label. With `multilabel`, a row may have no label."""
    has_text = [bool(t and not t.isspace()) for t in texts]
    has_label = [True] * len(texts) if labels is None or (multilabel and any(labels)) else [bool(lab) for lab in labels]
    row_ids = [i for i, both in enumerate(zip(has_text, has_label, strict=True)) if all(both)]
    if not texts:
        raise UserError(f"{path} has a header but no rows; expected at least one text")
    if not any(has_text):
        raise UserError(f"{path}: all {len(texts)} texts are empty; is it the right column?")
    if not any(has_label):
        raise UserError(f"{path}: all {len(texts)} labels are empty; is it the right column?")
    if not row_ids:
        raise UserError(f"{path}: the text or the label is empty in each of the {len(texts)} rows")
    no_text = len(texts) - sum(has_text)
    no_label = sum(t and not lab for t, lab in zip(has_text, has_label, strict=True))
    for count, cell in ((no_text, "text"), (no_label, "label")):
        if count:
            notes.append(f"skipped {count} of {len(texts)} rows: empty {cell}")
    row_labels = None if labels is None else [labels[i] or "" for i in row_ids]
    return Table([texts[i] or "" for i in row_ids], row_labels, notes, fingerprint, len(texts), row_ids=row_ids)


# Formatting of messages


def _shorten(name: str, width: int = 40) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"


def _quote_names(names: Sequence[str]) -> str:
    return ", ".join(repr(_shorten(n)) for n in names[:20]) + (
        f" and {len(names) - 20} more" if len(names) > 20 else ""
    )


def _join_names(names: Sequence[str], limit: int = 10) -> str:
    items = [*names[:limit], *([f"{len(names) - limit} more"] if len(names) > limit else [])]
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else "".join(items)


def _suggest_name(name: str, names: list[str]) -> str:
    suggestion = did_you_mean(name, names)
    return f"; {suggestion}" if suggestion.startswith("did you mean") else ""
