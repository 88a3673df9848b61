"""Kill a training run twenty times at random moments, resume it each time, and compare with the run never stopped.

python benchmarks/kills.py        writes benchmarks/results/kills.json
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOY = ROOT / "tests" / "training"
sys.path[:0] = [str(ROOT), str(TOY)]

from training_toy import last_state, lines  # noqa: E402

from regard.training import environment  # noqa: E402

KILLS = 20
RUN = {"dropout": 0.3, "steps": 400, "evaluate_every": 11, "optimizer": "adamw"}


def launch(folder: Path, **more) -> subprocess.Popen:
    """Start the toy training, and wait until its imports are done."""
    options = json.dumps({**RUN, "folder": str(folder), **more})
    child = subprocess.Popen(
        [sys.executable, str(TOY / "training_toy.py"), options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def step_of(folder: Path) -> int:
    steps = [int(p.name[5:]) for p in (folder / "state").glob("step-*") if p.name[5:].isdigit()]
    return max(steps, default=0)


def main() -> None:
    moments = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        whole, killed = Path(place) / "whole", Path(place) / "killed"
        assert launch(whole).wait() == 0
        at, half_written = [], 0
        while len(at) < KILLS:
            child = launch(killed, resume=bool(at), checkpoint_seconds=0, toy={"slow": 0.01})
            # Half of the kills fall early, into resuming and the first steps; half as soon as files are being written.
            time.sleep(moments.uniform(0.0, 1.5))
            if len(at) % 2:
                end = time.monotonic() + 20
                while not list((killed / "state").glob("*.tmp")) and child.poll() is None and time.monotonic() < end:
                    time.sleep(0.0005)
            if child.poll() is not None:
                raise SystemExit("the run ended before it could be killed often enough; give it more steps")
            child.kill()
            child.wait()
            at.append(step_of(killed))
            half_written += bool(list((killed / "state").glob("*.tmp")))
            print(f"kill {len(at)} at step {at[-1]}", flush=True)
        assert launch(killed, resume=True, checkpoint_seconds=0).wait() == 0
        result = {
            "kills": len(at),
            "killed_at_steps": at,
            "checkpoints_left_half_written": half_written,
            "steps": RUN["steps"],
            "best_model_identical": (whole / "model.safetensors").read_bytes()
            == (killed / "model.safetensors").read_bytes(),
            "last_state_identical": last_state(whole) == last_state(killed),
            "metrics_identical": lines(whole) == lines(killed),
            "seconds": round(time.perf_counter() - begun, 1),
            "machine": environment.describe_machine(),
        }
    text = json.dumps(result, indent=1)
    print(text)
    (ROOT / "benchmarks" / "results").mkdir(parents=True, exist_ok=True)
    (ROOT / "benchmarks" / "results" / "kills.json").write_text(text + "\n")
    if not all(value for name, value in result.items() if name.endswith("_identical")):
        raise SystemExit("the killed run differs from the one never stopped")


if __name__ == "__main__":
    main()
