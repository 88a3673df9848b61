"""The texts of a table as text to learn a language from: `reviews.csv:review`, one text a line.

    reviews.csv:review    the column of that name; of a table without a header its number, from 0
    reviews.csv           the column that looks like text, and a note that says which
    questions.txt:text    of `label text` lines the text

What a table says beside its texts, labels above all, is not read into them. A line end within a text becomes a space.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.data import read_table
from regard.errors import UserError

LINES = (".txt", ".txt.gz")
SUFFIXES = tuple(f"{end}{zipped}" for end in (".csv", ".tsv", ".jsonl", ".ndjson") for zipped in ("", ".gz"))
SUFFIXES += (".parquet",)


@dataclass(frozen=True)
class TextColumn:
    """A column of a table, read once it is asked for and then held in memory. It answers what a path is asked."""

    path: Path
    find_text_column: str | None = None

    @property
    def name(self) -> str:
        return self.path.name if self.column is None else f"{self.path.name}:{self.column}"

    @property
    def suffix(self) -> str:
        return ""

    def __str__(self) -> str:
        return str(self.path.with_name(self.name))

    def resolve(self) -> TextColumn:
        return TextColumn(self.path.resolve(), self.column)

    def stat(self) -> os.stat_result:
        return self.path.stat()

    def open(self) -> io.BytesIO:
        return io.BytesIO(self.text)

    @property
    def text(self) -> bytes:
        return self._found[0]

    @property
    def notes(self) -> list[str]:
        """What was guessed and what was left out."""
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[bytes, list[str]]:
        table = self._table()
        lines = (f"{line}\n" for line in map(_line, table.texts))
        return "".join(lines).encode(), [f"{self.path.name}: {note}" for note in table.notes]

    def _table(self) -> read_table.Table:
        if self.path.name.lower().endswith(LINES):
            if self.column != "text":
                raise UserError(f"{self.path} holds lines of a label and a text; say {self.path.name}:text")
            return read_table.read_table(self.path)
        return read_table.read_table(self.path, text=self.column, labelled=False)


def find_text_column(path: Path) -> TextColumn | None:
    """The column that is meant, or none where a file of text is."""
    if path.exists():
        return TextColumn(path) if path.name.lower().endswith(SUFFIXES) else None
    file, colon, name = str(path).rpartition(":")
    if not colon or not name or not Path(file).is_file() or not file.lower().endswith((*LINES, *SUFFIXES)):
        return None
    return TextColumn(Path(file), name)


def _line(text: str) -> str:
    return " ".join(part.strip() for part in text.splitlines() if part.strip())
