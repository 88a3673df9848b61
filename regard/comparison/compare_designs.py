"""A comparison from end to end, and a way to go on with it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from regard.comparison import ray_backend, report, results, runner
from regard.comparison.designs import Asked
from regard.comparison.plan import Plan, prepare
from regard.config.messages import show_messages
from regard.errors import UserError
from regard.training.interrupts import Interrupted
from regard.training.progress import format_duration

logger = logging.getLogger(__name__)


class Stopped(Exception):
    """A comparison was asked to stop; what was done by then is reported."""

    def __init__(self, found: dict[str, Any]):
        super().__init__("stopped")
        self.found = found


def compare_designs(
    asked: Asked, out: str | Path, *, on: str = "local", dry: bool = False, progress: bool = True
) -> dict[str, Any]:
    """Train every design with every seed, measure each run on the test part once, and write the report into `out`.
    Called again with the same `out` it goes on; models and seeds may be added. Raises `Stopped` after Ctrl-C, when what
    is done is measured and reported. `on` is where runs are trained: local, or ray."""
    out = Path(out)
    if on not in ("local", "ray"):
        raise UserError(f"runs are trained on local or on ray, and {on!r} was given")
    if on == "ray":
        ray_backend.found()  # before anything is tried or written
    results.measure_of(asked)
    show_messages()
    plan = prepare(asked, out)
    for line in told(plan, out):
        logger.info(line)
    if dry:
        return {
            "designs": [e.design.name for e in plan.entries],
            "steps": {e.design.name: e.steps for e in plan.entries},
        }
    try:
        if on == "ray":
            plan = ray_backend.run_all(plan, out)
        else:
            plan = runner.run_all(plan, out, progress)
    except (Interrupted, KeyboardInterrupt):
        logger.info("stopped; what is done is measured and reported (stopped again: what is measured by then)")
        try:
            found = finish(plan, out, looks=False)
        except (Interrupted, KeyboardInterrupt):
            found = finish(plan, out, looks=False, score=False)
        raise Stopped(found) from None
    try:
        return finish(plan, out)
    except (Interrupted, KeyboardInterrupt):
        raise Stopped(finish(plan, out, looks=False, score=False)) from None


def finish(plan: Plan, out: Path, *, looks: bool = True, score: bool = True) -> dict[str, Any]:
    """Touch the test part, write results.json, results.csv and report.html."""
    if score:
        runner.score_all(plan, out)
    found = results.gather(plan, out, looks=looks)
    results.save(found, out)
    (out / "report.html").write_text(report.page(plan, found, out), encoding="utf-8")
    return found


def told(plan: Plan, out: Path) -> list[str]:
    """What will be done, how long it will take and how much room, before it starts."""
    left = sum(not runner.finished(runner.folder_of(out, e.design, s)) for e, s in plan.runs)
    share = left / max(len(plan.runs), 1)
    parts = ", ".join(f"{count:,} {part}" for part, count in plan.facts["items"].items())
    return [
        f"{len(plan.entries)} designs x {plan.asked.seeds} seeds: {len(plan.runs)} runs of {plan.budget}, {left} to do",
        f"items: {parts} (cut once, the same for all)",
        f"about {format_duration(plan.seconds() * share)} of training here, and {plan.disk() / 1e6:,.0f} MB in {out}",
    ]
