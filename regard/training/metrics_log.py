"""The record of a run: metrics.jsonl, one JSON object a line, and TensorBoard's files in logs/.

    {"step": 40, "epoch": 1, "loss": 0.61, "terms": {"label": 0.61}, "lr": 0.0008, "tokens": 81920, "seconds": 3.2}
    {"step": 40, "epoch": 1, "valid": {"accuracy": 0.71}, "best": true, "seconds": 3.9}

A training line stands for the steps since the one before: the mean of their losses. Lines fall on every k-th step, k
hanging on the number of steps alone, so that a run that was stopped and resumed writes the same lines; only "seconds"
differs.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any, TextIO

from regard.training import atomic_write

LINES = 1000


def log_interval(total: int) -> int:
    """Every how many steps a line is written: at most about a thousand lines."""
    return max(1, -(-total // LINES))


def truncate_log(path: Path, step: int) -> None:
    """Cut metrics.jsonl back to a step: what came after it will come again."""
    if not path.exists():
        return
    kept = []
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            if json.loads(line)["step"] <= step and line.endswith(b"\n"):
                kept.append(line)
        except (ValueError, KeyError, TypeError):  # the last line of a run that was killed may be half
            continue
    atomic_write.replace_file(path, b"".join(kept))


class MetricsLog:
    """Writes the record from a step on; does nothing where `on` is false (processes other than the first)."""

    def __init__(self, folder: Path, step: int, on: bool = True) -> None:
        self._file: TextIO | None = None
        self._board: Any = None
        self._folder = folder
        self._begun = step
        if on:
            path = folder / "metrics.jsonl"
            truncate_log(path, step) if step else path.unlink(missing_ok=True)
            self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def log_training(self, line: dict[str, Any]) -> None:
        """A training line: step, epoch, loss, terms, lr, tokens, seconds."""
        values = {"loss": line["loss"], "lr": line["lr"], **{f"loss/{k}": v for k, v in line["terms"].items()}}
        self._write(line, {f"train/{name}": value for name, value in values.items()})

    def log_validation(self, line: dict[str, Any]) -> None:
        """A line of an evaluation: step, epoch, valid, best, seconds. What is no number becomes null, as JSON wants."""
        numbers = {name: value if math.isfinite(value) else None for name, value in line["valid"].items()}
        self._write({**line, "valid": numbers}, {f"valid/{name}": value for name, value in line["valid"].items()})

    def _write(self, line: dict[str, Any], values: dict[str, float]) -> None:
        if self._file is None:
            return
        with atomic_write.explain_full_disk(self._folder, 1_000_000):
            self._file.write(json.dumps(line) + "\n")
            board = self._open_board()
            for name, value in values.items():
                board.add_scalar(name, value, line["step"])

    def _open_board(self) -> Any:
        if self._board is None:
            from torch.utils.tensorboard import SummaryWriter  # here, since it takes a second

            self._board = SummaryWriter(str(self._folder / "logs"), purge_step=self._begun + 1, flush_secs=30)
        return self._board

    def flush(self, force: bool = False) -> None:
        """Hand the lines to the system, and with `force` to the disk."""
        if self._file is not None:
            with atomic_write.explain_full_disk(self._folder, 1_000_000):
                self._file.flush()
                if force:
                    os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the files. A full disk is passed over here: `flush` has told it, or a greater trouble is under way."""
        for file in (self._board, self._file):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
