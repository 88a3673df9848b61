"""Train the runs of a comparison on a Ray cluster: each run is a Ray task that returns its run folder as files.

    regard compare ... --on ray                 # the cluster at RAY_ADDRESS, or the cores of this machine

Steps and threads are those of plan.json, so that the results equal those of a single machine. If a worker dies, its run
is started again. A run that fails is recorded and the others continue. Workers share no disk: the parts of the data are
sent with the tasks. Runs are evaluated on this machine, after all are trained.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from regard.comparison import train_runs
from regard.comparison.plan import Plan, PlannedDesign, failure_file, run_folder
from regard.config.messages import muted
from regard.errors import UserError
from regard.training.interrupts import Interrupted

logger = logging.getLogger(__name__)

MAX_RETRIES = 3
"""How often a run is started again if its worker dies."""
Files = dict[str, bytes]


def train_all(plan: Plan, out: Path) -> Plan:
    """Train the runs that are not finished yet, on all workers."""
    ray = import_ray()
    plan = dataclasses.replace(plan, designs=train_runs.search_settings(plan, out, False))
    missing = [
        (planned, seed)
        for planned, seed in plan.runs
        if not train_runs.is_finished(run_folder(out, planned.design, seed))
    ]
    if not missing:
        return plan
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(address=os.environ.get("RAY_ADDRESS"), log_to_driver=False, include_dashboard=False)
    try:
        parts = ray.put(read_files(out / "parts"))
        task = ray.remote(num_cpus=plan.threads, max_retries=MAX_RETRIES)(train_on_worker)
        pending = {task.remote(plan, planned, seed, parts): (planned, seed) for planned, seed in missing}
        cores = f"{ray.cluster_resources().get('CPU', 0):g} cores of Ray, {plan.threads} per run"
        logger.info(f"{len(pending)} runs on {cores}")
        for number in range(1, len(missing) + 1):
            ready, _ = ray.wait(list(pending), num_returns=1)
            planned, seed = pending.pop(ready[0])
            _save_run(ray, ready[0], planned, seed, out, f"[{number}/{len(missing)}]")
    except KeyboardInterrupt:
        raise Interrupted(out, 0) from None
    finally:
        if started_here:
            ray.shutdown()
    return plan


def train_on_worker(plan: Plan, planned: PlannedDesign, seed: int, parts: Files) -> Files:
    """Train one run in a temporary folder of a worker, and return its files."""
    import torch

    torch.set_num_threads(plan.threads)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        write_files(parts, out / "parts")
        run = run_folder(out, planned.design, seed)
        with muted():
            train_runs.train_run(plan, planned, seed, out, run, False)
        return read_files(run)


def read_files(folder: Path) -> Files:
    """Return the files of a folder by name, without tokens, checkpoints and logs."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in files
        if file.relative_to(folder).parts[0] not in ("tokens", "state", "logs")
    }


def write_files(files: Files, folder: Path) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _save_run(ray: Any, result: Any, planned: PlannedDesign, seed: int, out: Path, number: str) -> None:
    """Save the files of a finished run, or the reason of its failure."""
    failure, folder = failure_file(out, planned.design, seed), run_folder(out, planned.design, seed)
    try:
        files = ray.get(result)
    except ray.exceptions.RayError as problem:
        cause = getattr(problem, "cause", None) or problem
        train_runs.save_failure(failure, cause)
        logger.error(f"{number} failed: {planned.name}, seed {seed}: {cause}; the other runs continue")
        return
    temporary = folder.with_name(f"{folder.name}.tmp")  # renamed when it is complete
    shutil.rmtree(temporary, ignore_errors=True)
    write_files(files, temporary)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
    failure.unlink(missing_ok=True)
    logger.info(f"{number} {planned.name}, seed {seed}")


def import_ray() -> Any:
    """Import Ray, which is an optional dependency."""
    try:
        import ray
    except ImportError:
        raise UserError('--on ray needs Ray, which is not installed: pip install "regard[ray]"') from None
    return ray
