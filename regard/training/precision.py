"""Choose the precision. Half precision is tested in a child process, since it can kill the process that uses it.

A processor may advertise AMX that the system does not allow. A bfloat16 product then ends with an illegal instruction,
which no `except` catches.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys

import torch

from regard.errors import UserError, did_you_mean

PRECISIONS = ("32", "auto", "bf16-mixed", "16-mixed")
MIN_SPEEDUP = 1.2
"""`auto` chooses half precision only if it is this many times faster than float32."""
_PRECISION_VARIABLE = "REGARD_PRECISION"

_PROBE = """
import json, sys, time, torch
kind = getattr(torch, sys.argv[1])
device = "cuda" if torch.cuda.is_available() else "cpu"
def run(dtype):
    x = torch.randn(512, 256, device=device)
    layers = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).to(device)
    times = []
    for _ in range(8):
        start = time.perf_counter()
        with torch.autocast(device, dtype=dtype, enabled=dtype is not torch.float32):
            y = layers(x)
        y.float().square().mean().backward()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    assert torch.isfinite(layers[0].weight.grad).all()
    return min(times[2:])
half = run(kind)
print(json.dumps({"speedup": run(torch.float32) / half}))
"""


def choose_precision(precision: str) -> str:
    """Fabric's name of a precision. `auto` is bfloat16 only if it works and is faster."""
    if precision not in PRECISIONS:
        raise UserError(f"unknown precision {precision!r}; {did_you_mean(precision, PRECISIONS)}")
    if precision == "32":
        return "32-true"
    if precision == "auto":
        return _auto()
    if precision == "16-mixed" and not torch.cuda.is_available():  # Fabric would silently use bfloat16 instead
        raise UserError("precision 16-mixed needs a GPU; on a CPU use --precision 32 or auto")
    speedup, reason = probe_precision("bfloat16" if precision == "bf16-mixed" else "float16")
    if speedup is None:
        raise UserError(f"precision {precision} does not work on this machine ({reason}); use --precision 32 or auto")
    return precision


def _auto() -> str:
    """All processes of a run must agree: child processes read the choice from the environment."""
    if _PRECISION_VARIABLE in os.environ:
        return os.environ[_PRECISION_VARIABLE]
    if torch.cuda.is_available():
        choice = "bf16-mixed" if torch.cuda.is_bf16_supported(including_emulation=False) else "32-true"
    elif int(os.environ.get("WORLD_SIZE", 1)) > 1:
        choice = "32-true"
    else:
        speedup, _ = probe_precision("bfloat16")
        choice = "bf16-mixed" if speedup is not None and speedup >= MIN_SPEEDUP else "32-true"
    os.environ[_PRECISION_VARIABLE] = choice
    return choice


@functools.cache
def probe_precision(dtype: str, code: str = _PROBE) -> tuple[float | None, str]:
    """Test a forward and backward pass in a child: the speedup over float32, or None and the reason."""
    try:
        child = subprocess.run(
            [sys.executable, "-c", code, dtype], capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        return None, "the test did not end within two minutes"
    if child.returncode < 0:
        return None, f"the test was killed by {signal.Signals(-child.returncode).name}"
    if child.returncode:
        return None, (child.stderr.strip().splitlines() or ["the test failed"])[-1]
    return float(json.loads(child.stdout)["speedup"]), ""
