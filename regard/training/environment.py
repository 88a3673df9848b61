"""The machine: settings of the process that make training quick, and a description that goes beside every number."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

# Parameters of mallopt, from glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_TWO_GIB = 2**31 - 1
_TOP_PAD = 64 * 2**20


def prepare_process(threads: int | None = None) -> None:
    """Make the process quick: flush denormals, keep freed memory, and use so many threads. Harmless when called again.

    Gradients of a peaked softmax are full of denormal numbers, which slow matrix products tenfold; worker threads
    take the flag over when they start, so call this early. glibc maps and unmaps each large tensor afresh, which costs
    a page fault per 4 KiB: below 2 GiB memory is kept instead.
    """
    torch.set_flush_denormal(True)
    _keep_memory()
    if threads is not None and threads != torch.get_num_threads():
        torch.set_num_threads(threads)


@contextlib.contextmanager
def process_environment(threads: int | None = None) -> Iterator[None]:
    """`prepare` for a while: afterwards this thread has denormal numbers again if it had them before."""
    flushed = (torch.tensor(1e-39) * 1.0).item() == 0.0
    prepare_process(threads)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushed)


def _keep_memory() -> bool:
    """Ask glibc's allocator to keep memory. False where there is no glibc."""
    if platform.libc_ver()[0] != "glibc":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    mallopt.argtypes, mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    wanted = {_M_MMAP_THRESHOLD: _TWO_GIB, _M_TRIM_THRESHOLD: _TWO_GIB, _M_TOP_PAD: _TOP_PAD}
    accepted = [mallopt(name, value) == 1 for name, value in wanted.items()]
    return all(accepted)


def describe_machine() -> dict[str, Any]:
    """The machine and the day, for result files."""
    return {
        "cpu": _cpu(),
        "cores": count_cores(),
        "threads": torch.get_num_threads(),
        "memory_gib": _memory(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
    }


def get_rank() -> int:
    """Which process of a run this is, known before the run starts: 0 for the first, which alone writes and speaks."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")))


def is_torchrun_worker() -> bool:
    """Whether `torchrun` made this process and others beside it."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ["WORLD_SIZE"]) > 1


def count_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None
