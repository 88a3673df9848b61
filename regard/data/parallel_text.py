"""Pairs of texts, a source and its translation: two files of which the n-th lines belong together, or a table with two
columns. Then their tokens, and batches of like length.

A text is one line. A source ends with [EOS], where attention can rest; a target is written after [BOS] and ends with
[EOS]. Byte-level BPE sees a space before each text, so that a word at its beginning is the same as one within.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.batches import BATCHES_PER_POOL
from regard.data.bpe_dropout import BPEDropout
from regard.data.read_table import read_columns, read_contents, decode_utf8
from regard.data.tokenizer import EOS, Tokenizer
from regard.errors import UserError, did_you_mean

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
SOURCES = ("source", "src", "input", "question", "command")
TARGETS = ("target", "tgt", "translation", "output", "answer", "actions")


@dataclass(frozen=True)
class ParallelTexts:
    """Sources and targets that belong together; `notes` say in words what was guessed and left out."""

    sources: list[str]
    targets: list[str]
    notes: list[str]
    fingerprint: str


def read_parallel_texts(
    files: Sequence[str | Path], *, source: str | None = None, target: str | None = None, empty: bool = False
) -> ParallelTexts:
    """Two aligned files, or one table with the columns `source` and `target` (guessed where they are not named).
    Pairs of which one side is empty are left out, unless `empty`."""
    if len(files) not in (1, 2):
        raise UserError(
            f"translation wants two aligned files, or one table with two columns, and was given {len(files)} files"
        )
    paths = [Path(file) for file in files]
    if len(paths) == 2:
        if source is not None or target is not None:
            raise UserError("columns are named where there is one table; two files have a text on each line")
        found, notes = _aligned(paths), []
    else:
        found, notes = _table(paths[0], source, target)
    sources, targets, fingerprint = found
    if not empty:
        kept = [i for i, pair in enumerate(zip(sources, targets, strict=True)) if all(not _blank(t) for t in pair)]
        if not kept:
            raise UserError(f"{_names(paths)}: in each of the {len(sources)} pairs the source or the target is empty")
        if len(kept) < len(sources):
            notes.append(f"{len(sources) - len(kept)} of {len(sources)} pairs left out: an empty line")
            sources, targets = [sources[i] for i in kept], [targets[i] for i in kept]
    return ParallelTexts(sources, targets, notes, fingerprint)


def read_lines(path: str | Path) -> tuple[list[str], str]:
    """A text on each line, also of a .gz file, and the file's fingerprint. Only a line feed ends a line, and a line may
    be blank."""
    raw, fingerprint = read_contents(path, blank=True)
    return [line.removesuffix("\r") for line in decode_utf8(raw, path).removesuffix("\n").split("\n")], fingerprint


def _aligned(paths: list[Path]) -> tuple[list[str], list[str], str]:
    (sources, first), (targets, second) = read_lines(paths[0]), read_lines(paths[1])
    if len(sources) != len(targets):
        raise UserError(
            f"{paths[0]} has {len(sources):,} lines and {paths[1]} has {len(targets):,}: the n-th lines of both must "
            "belong together"
        )
    return sources, targets, hashlib.sha256(f"{first}{second}".encode()).hexdigest()


def _table(path: Path, source: str | None, target: str | None) -> tuple[tuple[list[str], list[str], str], list[str]]:
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    if plain.suffix.lower() not in TABLES:
        raise UserError(
            f"one file, {str(path)!r}, was given: that must be a table ({', '.join(TABLES)}, also .gz) with two "
            "columns; for two aligned files name both"
        )
    notes: list[str] = []
    if (source is None) != (target is None):
        raise UserError("name both columns, that of the source and that of the target, or neither")
    if source is None or target is None:
        cells, _ = read_columns(path)
        source, target = _guess(list(cells), plain.suffix.lower(), path)
        notes.append(f"{path.name}: {_said(source)} is translated to {_said(target)}")
        if plain.suffix.lower() == ".csv" and not {source.lower(), target.lower()} <= {*SOURCES, *TARGETS}:
            pair = f"{source[:40]!r} and {target[:40]!r}"
            notes.append(f"{path.name}: {pair} were taken for the header; if they are a pair: --source 0 --target 1")
    cells, fingerprint = read_columns(path, [source, target])
    for name in (source, target):
        if name not in cells:
            known = list(read_columns(path)[0])
            raise UserError(f"{path} has no column {name!r}; {did_you_mean(name, known)}")
    return ([t or "" for t in cells[source]], [t or "" for t in cells[target]], fingerprint), notes


def _guess(names: list[str], kind: str, path: Path) -> tuple[str, str]:
    """Columns by the names that are usual; else the two that there are, of a .tsv by number: it has no header then."""
    lower = {name.lower(): name for name in names}
    source = next((lower[name] for name in SOURCES if name in lower), None)
    target = next((lower[name] for name in TARGETS if name in lower), None)
    if source is not None and target is not None:
        return source, target
    if len(names) != 2:
        raise UserError(
            f"{path} has {len(names)} columns ({', '.join(repr(n[:40]) for n in names[:8])}); name the two: "
            "--source NAME --target NAME (or their numbers from 0, where there is no header)"
        )
    return ("0", "1") if kind == ".tsv" else (names[0], names[1])


@dataclass(frozen=True)
class EncodedPairs:
    """Tokens of all pairs, each side flat with the place where each text starts; without [BOS], each ending with
    [EOS]. `num_skipped` pairs were too long."""

    source: np.ndarray
    source_starts: np.ndarray
    target: np.ndarray
    target_starts: np.ndarray
    num_skipped: int = 0

    def __len__(self) -> int:
        return len(self.source_starts) - 1

    @property
    def source_lengths(self) -> np.ndarray:
        return np.diff(self.source_starts)

    @property
    def target_lengths(self) -> np.ndarray:
        return np.diff(self.target_starts)


def add_leading_space(text: str, words: Tokenizer) -> str:
    """As the tokenizer is shown it."""
    return f" {text}" if words.kind == "bpe" else text


def text_of(ids: Sequence[int], words: Tokenizer) -> str:
    """The line that these ids say, with or without their end."""
    text = words.decode([id for id in ids if id != EOS])
    return re.sub(r"[\r\n]+", " ", text.removeprefix(" ")) if words.kind in ("bpe", "chars") else text


def encode_pairs(texts: ParallelTexts, words: Tokenizer, *, max_tokens: int | None = None, none: bool = False) -> EncodedPairs:
    """Tokens of pairs. A pair with a side of more than `max_tokens` is left out: cut, it would teach to stop early.
    That none is left is an error, unless `none`."""
    sides, kept = _short(texts, words, max_tokens)
    if not kept and not none:
        raise UserError(f"no pair has at most {max_tokens} tokens on both sides (--set data.max_tokens=N)")
    flat = [_flat([side[i].ids for i in kept]) for side in sides]
    return EncodedPairs(*flat[0], *flat[1], num_skipped=len(texts.sources) - len(kept))


def encode_with_bpe_dropout(texts: ParallelTexts, words: Tokenizer, max_tokens: int, chance: float, seed: int) -> Callable[[int], EncodedPairs]:
    """The same pairs with their words cut by BPE-dropout, anew in each epoch; those that `encode` leaves out are left
    out here too."""
    _, kept = _short(texts, words, max_tokens)
    both = [
        BPEDropout([add_leading_space(part[i], words) for i in kept], words, chance=chance, seed=seed)
        for part in (texts.sources, texts.targets)
    ]
    return lambda epoch: EncodedPairs(*both[0].epoch(epoch), *both[1].epoch(epoch))


def plan_pair_batches(
    sources: np.ndarray, targets: np.ndarray, tokens: int, *, seed: int, epoch: int, shuffle: bool = True
) -> list[np.ndarray]:
    """Indices of the pairs of each batch, of like length on both sides: (longest source + longest target) x pairs is
    at most `tokens`, unless a pair is alone. As in `batches.plan`, sorted within pools, the longest first."""
    if tokens < 1:
        raise UserError(f"the budget of a batch must be 1 token or more, and was given {tokens}")
    if not len(sources):
        return []
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(sources)) if shuffle else np.arange(len(sources))
    pool = max(1, int(BATCHES_PER_POOL * tokens / (sources + targets).mean())) if shuffle else len(order)
    found: list[np.ndarray] = []
    for start in range(0, len(order), pool):
        part = order[start : start + pool]
        part = part[np.lexsort((-sources[part], -targets[part]))]
        first = 0
        while first < len(part):
            # Targets fall, so that the first is the longest; sources may rise, and each adds to what all cost.
            widest = np.maximum.accumulate(sources[part[first:]]) + targets[part[first]]
            over = np.flatnonzero(widest * np.arange(1, len(widest) + 1) > tokens)
            count = max(1, int(over[0])) if len(over) else len(widest)
            found.append(part[first : first + count])
            first += count
    return [found[i] for i in random.permutation(len(found))] if shuffle else found


def _short(texts: ParallelTexts, words: Tokenizer, max_tokens: int | None) -> tuple[list[list[Any]], list[int]]:
    """Both sides tokenized, and which pairs have no side of more than `max_tokens`."""
    sides = [words.encode_batch_raw([add_leading_space(t, words) for t in part]) for part in (texts.sources, texts.targets)]
    kept = [
        i
        for i, (s, t) in enumerate(zip(*sides, strict=True))
        if max_tokens is None or max(len(s), len(t)) <= max_tokens
    ]
    return sides, kept


def _flat(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) + 1 for row in rows], out=starts[1:])
    ids = np.full(int(starts[-1]), EOS, np.int32)
    for row, start in zip(rows, starts.tolist(), strict=False):
        ids[start : start + len(row)] = row
    return ids, starts


def _blank(text: str) -> bool:
    return not text or text.isspace()


def _names(paths: Sequence[Path]) -> str:
    return " and ".join(map(str, paths))


def _said(column: str) -> str:
    return f"column {column}" if column.isdigit() else f"column {column!r}"
