"""Process settings that make training fast, and a description of the machine for result files."""

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
    """Make the process fast: flush denormals, keep freed memory, set the number of threads. Can be called again.

    Gradients of a peaked softmax contain many denormal numbers, which slow matrix products down tenfold. Worker threads
    inherit the flag when they start, so call this early. glibc maps and unmaps each large tensor, which costs a page
    fault per 4 KiB: below 2 GiB memory is kept instead.
    """
    torch.set_flush_denormal(True)
    _configure_malloc()
    if threads is not None and threads != torch.get_num_threads():
        torch.set_num_threads(threads)


@contextlib.contextmanager
def process_environment(threads: int | None = None) -> Iterator[None]:
    """`prepare_process` for a while: denormals are restored at the end."""
    was_flushing = (torch.tensor(1e-39) * 1.0).item() == 0.0
    prepare_process(threads)
    try:
        yield
    finally:
        torch.set_flush_denormal(was_flushing)


def _configure_malloc() -> bool:
    """Make glibc keep freed memory. False without glibc."""
    if platform.libc_ver()[0] != "glibc":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    mallopt.argtypes, mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    parameters = {_M_MMAP_THRESHOLD: _TWO_GIB, _M_TRIM_THRESHOLD: _TWO_GIB, _M_TOP_PAD: _TOP_PAD}
    accepted = [mallopt(name, value) == 1 for name, value in parameters.items()]
    return all(accepted)


def describe_machine() -> dict[str, Any]:
    """The machine and the date, for result files."""
    return {
        "cpu": _cpu_name(),
        "cores": count_cores(),
        "threads": torch.get_num_threads(),
        "memory_gib": _memory_gib(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
    }


def get_rank() -> int:
    """The rank of this process, known before the run starts. Only rank 0 writes files and messages."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")))


def is_torchrun_worker() -> bool:
    """Whether `torchrun` started this process together with others."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ["WORLD_SIZE"]) > 1


def count_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None
