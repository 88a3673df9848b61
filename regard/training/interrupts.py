"""Ctrl-C and SIGTERM: the first asks the loop to stop after its step, a second stops at once."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any


class Interrupted(Exception):
    """Training was asked to stop and did, at a step from which it can go on. `first` where that was the training of a
    run that another was to start from."""

    in_warm_start = False

    def __init__(self, folder: Path, step: int, signal_number: int = signal.SIGINT) -> None:
        super().__init__(f"stopped at step {step}; go on with --resume")
        self.folder, self.step, self.signal = folder, step, signal_number


class InterruptHandler:
    """While entered, the first SIGINT or SIGTERM sets `asked`; the next does what it did before."""

    def __init__(self) -> None:
        self.signal_number: int = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> InterruptHandler:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python refuses handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._restore()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = number
        self._restore()

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
