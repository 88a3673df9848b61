"""The machine, the precision and what is shown."""

import io
import signal

import pytest
import torch
from rich.console import Console

from regard.config.messages import collect_messages
from regard.errors import UserError
from regard.training import environment, precision
from regard.training.progress import ProgressBar, format_duration


def tiny() -> float:
    return (torch.tensor(1e-39) * torch.tensor(1.0)).item()


def test_process_environment_restores_denormals():
    assert tiny() > 0
    with environment.process_environment():
        assert tiny() == 0
        with environment.process_environment():
            pass
        assert tiny() == 0
    assert tiny() > 0


def test_prepare_process_flushes_denormals_and_can_be_repeated(request):
    request.addfinalizer(lambda: torch.set_flush_denormal(False))
    threads = torch.get_num_threads()
    environment.prepare_process()
    environment.prepare_process()
    assert tiny() == 0
    assert torch.get_num_threads() == threads
    environment.prepare_process(1)
    assert torch.get_num_threads() == 1
    environment.prepare_process(threads)


def test_describe():
    found = environment.describe_machine()
    assert found["cores"] >= 1
    assert found["torch"] == torch.__version__
    assert found["cpu"]
    assert found["date"].count("-") == 2


def test_rank(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert environment.get_rank() == 0
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert environment.get_rank() == 1
    monkeypatch.setenv("RANK", "5")
    assert environment.get_rank() == 5


@pytest.fixture
def fresh(monkeypatch):
    for name in ("REGARD_PRECISION", "WORLD_SIZE"):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    precision.probe_precision.cache_clear()
    return monkeypatch


def test_float32_needs_no_probe(fresh):
    fresh.setattr(precision, "probe_precision", None)
    assert precision.choose_precision("32") == "32-true"


def test_the_probe_really_runs(fresh):
    gain, trouble = precision.probe_precision("bfloat16")
    assert (gain is None and trouble) or gain > 0


@pytest.mark.parametrize(("gain", "wanted"), [(1.5, "bf16-mixed"), (1.1, "32-true"), (None, "32-true")])
def test_auto_uses_half_precision_only_if_it_is_faster(fresh, gain, wanted):
    fresh.setattr(torch.cuda, "is_available", lambda: False)
    fresh.setattr(precision, "probe_precision", lambda kind: (gain, "died"))
    assert precision.choose_precision("auto") == wanted
    fresh.setattr(precision, "probe_precision", None)  # a process started by this one does not try again
    assert precision.choose_precision("auto") == wanted


def test_float16_is_not_for_a_cpu(fresh):
    fresh.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="GPU"):
        precision.choose_precision("16-mixed")


def test_a_crashed_probe_is_reported(fresh):
    code = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    gain, trouble = precision.probe_precision("bfloat16", code)
    assert gain is None
    assert signal.SIGILL.name in trouble
    assert "no such type" in precision.probe_precision("float16", "raise SystemExit('no such type')")[1]
    fresh.setattr(precision, "probe_precision", lambda kind: (gain, trouble))
    with pytest.raises(UserError, match=r"SIGILL.*--precision 32"):
        precision.choose_precision("bf16-mixed")


def follow(console, times, wanted=True):
    clock = iter(times)
    with collect_messages() as messages, ProgressBar(wanted, console, clock=lambda: next(clock)) as bar:
        bar.start(0, 100, 0)
        bar.update(1, 0.5, 1000)
        bar.update(50, 0.25, 60_000, "best accuracy 0.9")
        bar.update(100, 0.125, 120_000, last=True)
    return messages


def test_log_lines_without_a_terminal():
    said = follow(Console(file=io.StringIO(), force_terminal=False), [0, 0, 1, 30, 40])
    assert said == [
        "step 50/100 loss 0.25  2.0k tokens/s  0:30 left  best accuracy 0.9",
        "step 100/100 loss 0.125  3.0k tokens/s  0:00 left",
    ]


def test_a_bar_on_a_terminal():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120, _environ={"TERM": "xterm"})
    assert follow(console, [0, 0, 1, 30, 40]) == []
    assert "50/100" in screen.getvalue()
    assert "2.0k tokens/s" in screen.getvalue()
    assert "best accuracy 0.9" in screen.getvalue()


def test_no_output_if_disabled():
    screen = io.StringIO()
    assert follow(Console(file=screen, force_terminal=True), [0, 0], wanted=False) == []
    assert screen.getvalue() == ""


def test_duration():
    assert [format_duration(s) for s in (0, 65, 7200)] == ["0:00", "1:05", "2:00:00"]
