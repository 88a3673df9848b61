"""Where the log messages of regard go.

Every module logs to `logging.getLogger(__name__)`. By default the messages are printed to standard output without any
prefix. A program that configures handlers of its own, on the logger "regard" or on the root logger, gets the messages
there instead. The command line chooses the stream with `configure`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Stream = Literal["stdout", "stderr"]

_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)
_muted: ContextVar[bool] = ContextVar("muted", default=False)


class MessageHandler(logging.Handler):
    """Print messages to the current standard output or error, unless they are muted or collected."""

    def __init__(self) -> None:
        super().__init__()
        self.stream: Stream = "stdout"
        self.configured = False

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        text = f"warning: {message}" if record.levelno == logging.WARNING else message
        messages = _collected.get()
        if messages is not None:
            messages.append(text)
        elif not _muted.get() and (self.configured or not _has_other_handlers()):
            self._print(text, record.levelno)

    def _print(self, text: str, level: int) -> None:
        stream = getattr(sys, self.stream)
        if self.configured and level >= logging.WARNING and stream.isatty():
            from rich.console import Console
            from rich.text import Text

            Console(file=stream).print(Text(text, style="yellow"), soft_wrap=True)
        else:
            print(text, file=stream, flush=True)


_handler = MessageHandler()


def _has_other_handlers() -> bool:
    return bool(logging.root.handlers) or any(h is not _handler for h in logging.getLogger("regard").handlers)


def show_messages() -> None:
    """Print messages from now on, unless the program has configured logging itself. Calling it again does nothing."""
    logger = logging.getLogger("regard")
    if _handler in logger.handlers:
        return
    logger.addHandler(_handler)
    if logger.level == logging.NOTSET and not _has_other_handlers():
        logger.setLevel(logging.INFO)


def configure(stream: Stream = "stdout", *, quiet: bool = False) -> None:
    """Print messages to this stream, whatever else is configured. For the command line.

    Args:
        stream: The name of the stream. It is looked up at each message, so that it can be redirected.
        quiet: Print warnings and errors only.
    """
    show_messages()
    _handler.configured, _handler.stream = True, stream
    _handler.setLevel(logging.WARNING if quiet else logging.NOTSET)
    logging.getLogger("regard").setLevel(logging.INFO)


def mute() -> None:
    """Print no messages of this thread from now on. For all processes of a distributed run but the first."""
    _muted.set(True)


@contextmanager
def muted(active: bool = True) -> Iterator[None]:
    """Do not print the messages of this thread while entered."""
    token = _muted.set(active or _muted.get())
    try:
        yield
    finally:
        _muted.reset(token)


@contextmanager
def collect_messages() -> Iterator[list[str]]:
    """Collect the messages of this thread in a list instead of printing them.

    >>> with collect_messages() as messages:
    ...     run.evaluate("reviews.csv")
    """
    show_messages()
    logger, messages = logging.getLogger("regard"), list[str]()
    if not logger.isEnabledFor(logging.INFO):
        logger.setLevel(logging.INFO)
    token = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(token)
