"""Log messages: where they are printed, muted and collected."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading

import pytest

from regard.config import messages
from regard.config.messages import collect_messages, configure, mute, muted

logger = logging.getLogger("regard.somewhere")


@pytest.fixture(autouse=True)
def _restore(monkeypatch):
    """Other tests keep the logger and the handler that they had."""
    root = logging.getLogger("regard")
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(messages, "_handler", messages.MessageHandler())
    level = root.level
    yield
    root.setLevel(level)


def run_python(code: str) -> tuple[str, str]:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return result.stdout, result.stderr


SHOW = """
import logging
from regard.config.messages import show_messages
{before}
show_messages()
show_messages()
{after}
logging.getLogger("regard.tasks").info("3 rows left out")
logging.getLogger("regard.tasks").warning("no end")
"""


def test_messages_are_printed_without_prefix_by_default():
    assert run_python(SHOW.format(before="", after="")) == ("3 rows left out\nwarning: no end\n", "")


@pytest.mark.parametrize("before", [True, False])
def test_handlers_of_the_program_get_the_messages_instead(before):
    own = "logging.basicConfig(level=logging.INFO)"
    code = SHOW.format(before=own if before else "", after="" if before else own)
    assert run_python(code) == ("", "INFO:regard.tasks:3 rows left out\nWARNING:regard.tasks:no end\n")


def test_the_command_line_chooses_the_stream(capsys):
    configure("stderr")
    logger.info("a")
    configure("stdout")
    logger.info("b")
    configure("stdout", quiet=True)
    logger.info("c")
    logger.warning("d")
    logger.error("e")
    assert tuple(capsys.readouterr()) == ("b\nwarning: d\ne\n", "a\n")


def test_muted_messages_are_not_printed(capsys):
    configure("stdout")
    with muted():
        logger.info("a")
        with muted(False):
            logger.info("b")
    with muted(False):
        logger.info("c")
    logger.info("d")
    assert capsys.readouterr().out == "c\nd\n"


def test_a_muted_thread_mutes_no_other(capsys):
    configure("stdout")
    thread = threading.Thread(target=lambda: (mute(), logger.info("muted")))
    thread.start()
    thread.join()
    logger.info("printed")
    assert capsys.readouterr().out == "printed\n"


def test_messages_are_collected_by_thread(capsys):
    configure("stdout")
    collected: dict[str, list[str]] = {}
    barrier = threading.Barrier(2)

    def work(name: str) -> None:
        with collect_messages() as lines:
            barrier.wait()
            for number in range(50):
                logger.info(f"{name} {number}")
            barrier.wait()
        collected[name] = lines

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert collected == {name: [f"{name} {number}" for number in range(50)] for name in "ab"}
    assert capsys.readouterr().out == ""
