"""Which precision to compute in. Half precision is tried in a child process first: it can kill the process that tries.

A processor may advertise AMX that the system does not let it use; a bfloat16 product then ends in an illegal
instruction, which no `except` catches.
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
"""Half precision must be so many times faster than float32 to be chosen by itself."""
_CHOSEN = "REGARD_PRECISION"

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
print(json.dumps({"gain": run(torch.float32) / half}))
"""


def choose_precision(wanted: str) -> str:
    """Fabric's name for the precision that was asked for; `auto` takes bfloat16 only where it lives and is worth it."""
    if wanted not in PRECISIONS:
        raise UserError(f"unknown precision {wanted!r}; {did_you_mean(wanted, PRECISIONS)}")
    if wanted == "32":
        return "32-true"
    if wanted == "auto":
        return _auto()
    if wanted == "16-mixed" and not torch.cuda.is_available():  # Fabric would take bfloat16 instead, unasked
        raise UserError("precision 16-mixed needs a GPU; on a CPU use --precision 32 or auto")
    gain, trouble = probe_precision("bfloat16" if wanted == "bf16-mixed" else "float16")
    if gain is None:
        raise UserError(f"precision {wanted} does not work on this machine ({trouble}); use --precision 32 or auto")
    return wanted


def _auto() -> str:
    """Processes of one run must agree: those that this process starts read its choice; others take no timed choice."""
    if _CHOSEN in os.environ:
        return os.environ[_CHOSEN]
    if torch.cuda.is_available():
        chosen = "bf16-mixed" if torch.cuda.is_bf16_supported(including_emulation=False) else "32-true"
    elif int(os.environ.get("WORLD_SIZE", 1)) > 1:
        chosen = "32-true"
    else:
        gain, _ = probe_precision("bfloat16")
        chosen = "bf16-mixed" if gain is not None and gain >= MIN_SPEEDUP else "32-true"
    os.environ[_CHOSEN] = chosen
    return chosen


@functools.cache
def probe_precision(kind: str, code: str = _PROBE) -> tuple[float | None, str]:
    """Try a forward and backward pass in `kind` in a child: how many times faster than float32, or None and why."""
    try:
        child = subprocess.run(
            [sys.executable, "-c", code, kind], capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        return None, "the trial did not end within two minutes"
    if child.returncode < 0:
        return None, f"the trial was killed by {signal.Signals(-child.returncode).name}"
    if child.returncode:
        return None, (child.stderr.strip().splitlines() or ["the trial failed"])[-1]
    return float(json.loads(child.stdout)["gain"]), ""
