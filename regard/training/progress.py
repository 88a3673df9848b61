"""Progress of training: a bar on a terminal or in a notebook, log lines elsewhere."""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

logger = logging.getLogger(__name__)

PLAIN_SECONDS = 10.0


class ProgressBar:
    """Shows step, loss, tokens per second, remaining time and the best result so far. Use as a context manager."""

    def __init__(
        self,
        enabled: bool = True,
        console: Console | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock = clock
        self._console = (console or Console(stderr=True)) if enabled else None
        self._rich: Progress | None = None
        self._task: TaskID | None = None
        self._start = (0, 0, 0.0)  # step, tokens and time at the start
        self._last_message = 0.0
        self._total = 0

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._rich is not None:
            self._rich.stop()
            self._rich = None

    def start(self, step: int, total: int, tokens: int) -> None:
        """Start at a step of `total`. Speed and remaining time are measured from here."""
        self._total = total
        self._start = (step, tokens, self._clock())
        self._last_message = self._clock()
        if self._console is None or not _can_draw(self._console):
            return
        # Drawn when the loop reports, about once a second: a separate thread would slow the training down.
        self._rich = Progress(
            TextColumn("training"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}"),
            console=self._console,
            auto_refresh=False,
        )
        self._task = self._rich.add_task("", total=total, completed=step, text="")
        self._rich.start()

    def update(self, step: int, loss: float, tokens: int, best: str = "", last: bool = False) -> None:
        """Report a step. `best` is shown as it is."""
        if self._console is None:
            return
        now = self._clock()
        text = self._text(step, loss, tokens, best, now)
        if self._rich is not None and self._task is not None:
            self._rich.update(self._task, completed=step, text=text)
            self._rich.refresh()
        elif last or now - self._last_message >= PLAIN_SECONDS:
            self._last_message = now
            logger.info(f"step {step}/{self._total} {text}")

    def _text(self, step: int, loss: float, tokens: int, best: str, now: float) -> str:
        first_step, first_tokens, start_time = self._start
        seconds = max(now - start_time, 1e-9)
        done = step - first_step
        left = seconds / done * (self._total - step) if done else None
        parts = [f"loss {loss:.4g}", f"{_format_number((tokens - first_tokens) / seconds)} tokens/s"]
        parts += [] if left is None else [f"{format_duration(left)} left"]
        return "  ".join(parts + ([best] if best else []))


def _can_draw(console: Console) -> bool:
    """Whether a bar can be drawn: on a terminal, or in a notebook with widgets."""
    if console.is_jupyter:
        return importlib.util.find_spec("ipywidgets") is not None
    return console.is_terminal and not console.is_dumb_terminal


def _format_number(number: float) -> str:
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{suffix}"
    return f"{number:.0f}"


def format_duration(seconds: float) -> str:
    """`1:05` for 65 seconds, `2:00:00` for two hours."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
