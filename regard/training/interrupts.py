"""Ctrl-C and SIGTERM: the first one stops training after the current step, a second one immediately."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any


class Interrupted(Exception):
    """Training was stopped at a step from which it can be resumed.

    `in_warm_start` is True if it was the training of a run that another one starts from.
    """

    in_warm_start = False

    def __init__(self, folder: Path, step: int, signal_number: int = signal.SIGINT) -> None:
        super().__init__(f"stopped at step {step}; continue with --resume")
        self.folder, self.step, self.signal = folder, step, signal_number


class InterruptHandler:
    """While entered, the first SIGINT or SIGTERM sets `signal_number`; the next one does what it did before."""

    def __init__(self) -> None:
        self.signal_number: int = 0
        self._previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> InterruptHandler:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers in the main thread only
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous_handlers[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, error_type: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._restore()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = number
        self._restore()

    def _restore(self) -> None:
        while self._previous_handlers:
            number, handler = self._previous_handlers.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
