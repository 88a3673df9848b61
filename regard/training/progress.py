"""How it goes: a bar on a terminal or in a notebook, a plain line now and then elsewhere, nothing where not wanted."""

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
    """Shows step, loss, tokens per second, time left and the best result so far. Use as a context."""

    def __init__(
        self,
        wanted: bool = True,
        console: Console | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._wanted, self._clock = wanted, clock
        self._console = (console or Console(stderr=True)) if wanted else None
        self._rich: Progress | None = None
        self._task: TaskID | None = None
        self._first = (0, 0, 0.0)  # step, tokens and time of the start, for the speed
        self._spoke = 0.0
        self._total = 0

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._rich is not None:
            self._rich.stop()
            self._rich = None

    def start(self, step: int, total: int, tokens: int) -> None:
        """Begin at a step of `total`; time left and speed are measured from here."""
        self._total = total
        self._first = (step, tokens, self._clock())
        self._spoke = self._clock()
        if self._console is None or not _draws(self._console):
            return
        # Drawn when the loop reports, about once a second: a thread of its own would take time from the training.
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
        """Report a step. `best` is shown as given."""
        if self._console is None:
            return
        now = self._clock()
        text = self._text(step, loss, tokens, best, now)
        if self._rich is not None and self._task is not None:
            self._rich.update(self._task, completed=step, text=text)
            self._rich.refresh()
        elif last or now - self._spoke >= PLAIN_SECONDS:
            self._spoke = now
            logger.info(f"step {step}/{self._total} {text}")

    def _text(self, step: int, loss: float, tokens: int, best: str, now: float) -> str:
        first_step, first_tokens, begun = self._first
        seconds = max(now - begun, 1e-9)
        done = step - first_step
        left = seconds / done * (self._total - step) if done else None
        parts = [f"loss {loss:.4g}", f"{_short((tokens - first_tokens) / seconds)} tokens/s"]
        parts += [] if left is None else [f"{format_duration(left)} left"]
        return "  ".join(parts + ([best] if best else []))


def _draws(console: Console) -> bool:
    """Whether a bar can be drawn: on a terminal, or in a notebook that has widgets."""
    if console.is_jupyter:
        return importlib.util.find_spec("ipywidgets") is not None
    return console.is_terminal and not console.is_dumb_terminal


def _short(number: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return f"{number:.0f}"


def format_duration(seconds: float) -> str:
    """`1:05` for 65 seconds, `2:00:00` for two hours."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
