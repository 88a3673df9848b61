"""Parallel texts for translation: two files with aligned lines, or a table with two columns; their tokens and batches.

A text is one line. A source ends with [EOS], which gives attention a neutral token. A target starts after [BOS] and
ends with [EOS]. With byte-level BPE, a space is added before each text, so that a word has the same tokens at the start
and within the text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.batches import BATCHES_PER_POOL, check_token_budget
from regard.data.bpe_dropout import BPEDropout
from regard.data.read_table import decode_utf8, read_columns, read_contents
from regard.data.tokenizer import EOS, Tokenizer
from regard.errors import UserError, did_you_mean

TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
SOURCE_COLUMNS = ("source", "src", "input", "question", "command")
TARGET_COLUMNS = ("target", "tgt", "translation", "output", "answer", "actions")


@dataclass(frozen=True)
class ParallelTexts:
    """Sources and their targets; `notes` are messages about guessed columns and skipped pairs."""

    sources: list[str]
    targets: list[str]
    notes: list[str]
    fingerprint: str


def read_parallel_texts(
    files: Sequence[str | Path], *, source: str | None = None, target: str | None = None, keep_empty: bool = False
) -> ParallelTexts:
    """Read two files with aligned lines, or one table.

    Args:
        files: Two files, or one table.
        source: Column of the sources; guessed if omitted.
        target: Column of the targets; guessed if omitted.
        keep_empty: Whether to keep pairs in which one side is empty.
    """
    if len(files) not in (1, 2):
        raise UserError(f"expected two aligned files, or one table with two columns, got {len(files)} files")
    paths = [Path(file) for file in files]
    if len(paths) == 2:
        if source is not None or target is not None:
            raise UserError("column names are for a table; two files have one text per line and no columns")
        pairs, notes = _read_aligned_files(paths), []
    else:
        pairs, notes = _read_pair_table(paths[0], source, target)
    sources, targets, fingerprint = pairs
    if not keep_empty:
        rows = [i for i, pair in enumerate(zip(sources, targets, strict=True)) if all(text.strip() for text in pair)]
        if not rows:
            names = " and ".join(map(str, paths))
            raise UserError(f"{names}: the source or the target is empty in each of the {len(sources)} pairs")
        if len(rows) < len(sources):
            notes.append(f"skipped {len(sources) - len(rows)} of {len(sources)} pairs: empty line")
            sources, targets = [sources[i] for i in rows], [targets[i] for i in rows]
    return ParallelTexts(sources, targets, notes, fingerprint)


def read_lines(path: str | Path) -> tuple[list[str], str]:
    """Read the lines of a file (also .gz) and its fingerprint. Lines may be blank, and only a line feed ends a line."""
    raw, fingerprint = read_contents(path, allow_blank=True)
    return [line.removesuffix("\r") for line in decode_utf8(raw, path).removesuffix("\n").split("\n")], fingerprint


def _read_aligned_files(paths: list[Path]) -> tuple[list[str], list[str], str]:
    (sources, first), (targets, second) = read_lines(paths[0]), read_lines(paths[1])
    if len(sources) != len(targets):
        raise UserError(
            f"{paths[0]} has {len(sources):,} lines and {paths[1]} has {len(targets):,}; line n of one file must "
            "be the translation of line n of the other"
        )
    return sources, targets, hashlib.sha256(f"{first}{second}".encode()).hexdigest()


def _read_pair_table(
    path: Path, source: str | None, target: str | None
) -> tuple[tuple[list[str], list[str], str], list[str]]:
    suffix = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        raise UserError(
            f"got one file, {str(path)!r}, which is not a table ({', '.join(TABLE_SUFFIXES)}, also .gz) with two "
            "columns; pass both files of an aligned pair"
        )
    notes: list[str] = []
    if (source is None) != (target is None):
        raise UserError("name both columns, source and target, or neither")
    if source is None or target is None:
        cells, _ = read_columns(path)
        source, target = _guess_columns(list(cells), suffix, path)
        notes.append(f"{path.name}: using {_format_column(source)} as source and {_format_column(target)} as target")
        if suffix == ".csv" and not {source.lower(), target.lower()} <= {*SOURCE_COLUMNS, *TARGET_COLUMNS}:
            header = f"{source[:40]!r} and {target[:40]!r}"
            notes.append(f"{path.name}: using {header} as the header; if they are a pair: --source 0 --target 1")
    cells, fingerprint = read_columns(path, [source, target])
    for name in (source, target):
        if name not in cells:
            raise UserError(f"{path} has no column {name!r}; {did_you_mean(name, list(read_columns(path)[0]))}")
    return ([cell or "" for cell in cells[source]], [cell or "" for cell in cells[target]], fingerprint), notes


def _guess_columns(names: list[str], suffix: str, path: Path) -> tuple[str, str]:
    """Return columns with common names, otherwise the only two columns; a .tsv then has no header."""
    by_lowercase = {name.lower(): name for name in names}
    source = next((by_lowercase[name] for name in SOURCE_COLUMNS if name in by_lowercase), None)
    target = next((by_lowercase[name] for name in TARGET_COLUMNS if name in by_lowercase), None)
    if source is not None and target is not None:
        return source, target
    if len(names) != 2:
        raise UserError(
            f"{path} has {len(names)} columns ({', '.join(repr(n[:40]) for n in names[:8])}); choose two of them: "
            "--source NAME --target NAME (or their numbers from 0 if there is no header)"
        )
    return ("0", "1") if suffix == ".tsv" else (names[0], names[1])


def _format_column(column: str) -> str:
    return f"column {column}" if column.isdigit() else f"column {column!r}"


@dataclass(frozen=True)
class EncodedPairs:
    """Token ids of all pairs in flat arrays, without [BOS]; each text ends with [EOS].

    Attributes:
        source: Ids of all sources.
        source_starts: Offsets of the sources, (pairs + 1,).
        target: Ids of all targets.
        target_starts: Offsets of the targets, (pairs + 1,).
        num_skipped: Number of pairs that were too long.
    """

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


def add_leading_space(text: str, tokenizer: Tokenizer) -> str:
    """Add the space that a byte-level BPE expects before a word."""
    return f" {text}" if tokenizer.kind == "bpe" else text


def decode_line(ids: Sequence[int], tokenizer: Tokenizer) -> str:
    """Decode ids, with or without [EOS], to one line of text."""
    text = tokenizer.decode([id for id in ids if id != EOS])
    return re.sub(r"[\r\n]+", " ", text.removeprefix(" ")) if tokenizer.kind in ("bpe", "chars") else text


def encode_pairs(
    texts: ParallelTexts, tokenizer: Tokenizer, *, max_tokens: int | None = None, allow_none: bool = False
) -> EncodedPairs:
    """Tokenize pairs.

    Args:
        texts: The pairs.
        tokenizer: The tokenizer of both sides.
        max_tokens: Pairs with a longer side are skipped: a truncated pair would teach the model to stop early.
        allow_none: Whether it is allowed that no pair is left.
    """
    sides, rows = _encode_short_pairs(texts, tokenizer, max_tokens)
    if not rows and not allow_none:
        raise UserError(f"no pair has at most {max_tokens} tokens on both sides (--set data.max_tokens=N)")
    source, target = (_concatenate_ids([side[i].ids for i in rows]) for side in sides)
    return EncodedPairs(*source, *target, num_skipped=len(texts.sources) - len(rows))


def encode_with_bpe_dropout(
    texts: ParallelTexts, tokenizer: Tokenizer, max_tokens: int, dropout: float, seed: int
) -> Callable[[int], EncodedPairs]:
    """Return a function that encodes an epoch with BPE-dropout. It skips the same pairs as `encode_pairs`."""
    _, rows = _encode_short_pairs(texts, tokenizer, max_tokens)
    source, target = (
        BPEDropout([add_leading_space(side[i], tokenizer) for i in rows], tokenizer, dropout=dropout, seed=seed)
        for side in (texts.sources, texts.targets)
    )
    return lambda epoch: EncodedPairs(*source.encode_epoch(epoch), *target.encode_epoch(epoch))


def plan_pair_batches(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    max_tokens: int,
    *,
    seed: int,
    epoch: int,
    shuffle: bool = True,
) -> list[np.ndarray]:
    """Return the pair indices of each batch; pairs of a batch have similar lengths on both sides.

    (longest source + longest target) x pairs is at most `max_tokens`, except for a batch of one pair. As in
    `plan_batches`, pairs are sorted within pools, the longest first.
    """
    check_token_budget(max_tokens)
    if not len(source_lengths):
        return []
    rng = np.random.default_rng([seed, epoch])
    indices = rng.permutation(len(source_lengths)) if shuffle else np.arange(len(source_lengths))
    mean_length = (source_lengths + target_lengths).mean()
    pool_size = max(1, int(BATCHES_PER_POOL * max_tokens / mean_length)) if shuffle else len(indices)
    batches: list[np.ndarray] = []
    for start in range(0, len(indices), pool_size):
        pool = indices[start : start + pool_size]
        pool = pool[np.lexsort((-source_lengths[pool], -target_lengths[pool]))]
        first = 0
        while first < len(pool):
            # Targets are sorted, so the first one is the longest. Sources are not, and each may make the batch wider.
            width = np.maximum.accumulate(source_lengths[pool[first:]]) + target_lengths[pool[first]]
            too_large = np.flatnonzero(width * np.arange(1, len(width) + 1) > max_tokens)
            count = max(1, int(too_large[0])) if len(too_large) else len(width)
            batches.append(pool[first : first + count])
            first += count
    return [batches[i] for i in rng.permutation(len(batches))] if shuffle else batches


def _encode_short_pairs(
    texts: ParallelTexts, tokenizer: Tokenizer, max_tokens: int | None
) -> tuple[list[list[Any]], list[int]]:
    """Return the encodings of both sides, and the indices of pairs with at most `max_tokens` on each side."""
    sides = [
        tokenizer.encode_batch_raw([add_leading_space(text, tokenizer) for text in side])
        for side in (texts.sources, texts.targets)
    ]
    rows = [
        i
        for i, (source, target) in enumerate(zip(*sides, strict=True))
        if max_tokens is None or max(len(source), len(target)) <= max_tokens
    ]
    return sides, rows


def _concatenate_ids(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of all rows, each followed by [EOS], and the offsets of rows."""
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) + 1 for row in rows], out=starts[1:])
    ids = np.full(int(starts[-1]), EOS, np.int32)
    for row, start in zip(rows, starts.tolist(), strict=False):
        ids[start : start + len(row)] = row
    return ids, starts
