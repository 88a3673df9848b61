"""The same grid on a Ray cluster: each run is a task of its own, and what it leaves behind comes back as files.

    regard compare ... --on ray                 # a cluster at RAY_ADDRESS, or else this machine's cores

Steps and threads are those of plan.json, so that the table is the one of a single machine. A worker that dies is
replaced and its run starts again; a run that fails is noted and the rest goes on. Workers share no disk: the parts of
the data go out with the tasks. Measuring happens at home, once all is trained.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from regard.comparison import runner
from regard.comparison.plan import Entry, Plan, failure_of, folder_of
from regard.config.messages import muted
from regard.errors import UserError
from regard.training.interrupts import Interrupted

logger = logging.getLogger(__name__)

RETRIES = 3
"""How often a run starts again whose worker has died."""
Files = dict[str, bytes]


def run_all(plan: Plan, out: Path) -> Plan:
    """Train what is not trained yet, on all workers there are."""
    ray = found()
    plan = dataclasses.replace(plan, entries=runner.searched(plan, out, False))
    todo = [(entry, seed) for entry, seed in plan.runs if not runner.finished(folder_of(out, entry.design, seed))]
    if not todo:
        return plan
    began = not ray.is_initialized()
    if began:
        ray.init(address=os.environ.get("RAY_ADDRESS"), log_to_driver=False, include_dashboard=False)
    try:
        parts = ray.put(packed(out / "parts"))
        task = ray.remote(num_cpus=plan.threads, max_retries=RETRIES)(trained)
        waiting = {task.remote(plan, entry, seed, parts): (entry, seed) for entry, seed in todo}
        logger.info(
            f"{len(waiting)} runs on {ray.cluster_resources().get('CPU', 0):g} cores of Ray, {plan.threads} a run"
        )
        done = 0
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            entry, seed = waiting.pop(ready[0])
            done += 1
            _take(ray, ready[0], entry, seed, out, f"[{done}/{len(todo)}]")
    except KeyboardInterrupt:
        raise Interrupted(out, 0) from None
    finally:
        if began:
            ray.shutdown()
    return plan


def trained(plan: Plan, entry: Entry, seed: int, parts: Files) -> Files:
    """On a worker: train one run in a folder of its own, and give back what it left."""
    import torch

    torch.set_num_threads(plan.threads)
    with tempfile.TemporaryDirectory() as place:
        out = Path(place)
        unpacked(parts, out / "parts")
        folder = folder_of(out, entry.design, seed)
        with muted():
            runner.train_one(plan, entry, seed, out, folder, False)
        return packed(folder)


def packed(folder: Path) -> Files:
    """The files of a folder by their names; what was tokenised can be tokenised again."""
    found = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in found
        if file.relative_to(folder).parts[0] not in ("tokens", "state", "logs")
    }


def unpacked(files: Files, folder: Path) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _take(ray: Any, made: Any, entry: Entry, seed: int, out: Path, number: str) -> None:
    """A run that came back, or why it did not."""
    note, folder = failure_of(out, entry.design, seed), folder_of(out, entry.design, seed)
    try:
        files = ray.get(made)
    except ray.exceptions.RayError as problem:
        told = getattr(problem, "cause", None) or problem
        runner.fail(note, told)
        logger.error(f"{number} failed: {entry.design.name}, seed {seed}: {told}; the others go on")
        return
    beside = folder.with_name(f"{folder.name}.tmp")  # whole or not there
    shutil.rmtree(beside, ignore_errors=True)
    unpacked(files, beside)
    shutil.rmtree(folder, ignore_errors=True)
    beside.rename(folder)
    note.unlink(missing_ok=True)
    logger.info(f"{number} {entry.design.name}, seed {seed}")


def found() -> Any:
    """Ray itself, which is an extra."""
    try:
        import ray
    except ImportError:
        raise UserError('runs on a cluster want Ray, which is missing: pip install "regard[ray]"') from None
    return ray
