"""The log of a run: metrics.jsonl with one JSON object per line, and TensorBoard files in logs/.

    {"step": 40, "epoch": 1, "loss": 0.61, "terms": {"label": 0.61}, "lr": 0.0008, "tokens": 81920, "seconds": 3.2}
    {"step": 40, "epoch": 1, "valid": {"accuracy": 0.71}, "best": true, "seconds": 3.9}

A training line has the mean losses of the steps since the line before. There is a line every k steps, where k depends
on the number of steps only, so that a resumed run writes the same lines; only "seconds" differs.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any, TextIO

from regard.training import atomic_write

MAX_LINES = 1000


def log_interval(total: int) -> int:
    """How many steps are between two lines: at most about a thousand lines are written."""
    return max(1, -(-total // MAX_LINES))


def truncate_log(path: Path, step: int) -> None:
    """Remove the lines of metrics.jsonl after a step, which will be trained again."""
    if not path.exists():
        return
    lines = []
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            if json.loads(line)["step"] <= step and line.endswith(b"\n"):
                lines.append(line)
        except (ValueError, KeyError, TypeError):  # the last line of a killed run may be incomplete
            continue
    atomic_write.replace_file(path, b"".join(lines))


class MetricsLog:
    """Writes the log from a step on. Does nothing unless `enabled` (in processes other than the first)."""

    def __init__(self, folder: Path, step: int, enabled: bool = True) -> None:
        self._file: TextIO | None = None
        self._board: Any = None
        self._folder = folder
        self._first_step = step
        if enabled:
            path = folder / "metrics.jsonl"
            truncate_log(path, step) if step else path.unlink(missing_ok=True)
            self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def log_training(self, line: dict[str, Any]) -> None:
        """Write a training line: step, epoch, loss, terms, lr, tokens, seconds."""
        values = {"loss": line["loss"], "lr": line["lr"], **{f"loss/{k}": v for k, v in line["terms"].items()}}
        self._write(line, {f"train/{name}": value for name, value in values.items()})

    def log_validation(self, line: dict[str, Any]) -> None:
        """Write an evaluation line: step, epoch, valid, best, seconds. NaN and inf become null, for JSON."""
        finite = {name: value if math.isfinite(value) else None for name, value in line["valid"].items()}
        self._write({**line, "valid": finite}, {f"valid/{name}": value for name, value in line["valid"].items()})

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
            from torch.utils.tensorboard import SummaryWriter  # imported here, since it takes a second

            self._board = SummaryWriter(str(self._folder / "logs"), purge_step=self._first_step + 1, flush_secs=30)
        return self._board

    def flush(self, force: bool = False) -> None:
        """Write the buffered lines, with `force` to the disk."""
        if self._file is not None:
            with atomic_write.explain_full_disk(self._folder, 1_000_000):
                self._file.flush()
                if force:
                    os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the files. A full disk is ignored here: `flush` has reported it, or another error is under way."""
        for file in (self._board, self._file):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()
