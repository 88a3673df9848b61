"""Run a comparison from end to end, or resume it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.comparison import ray_backend, train_runs
from regard.comparison.collect_results import collect_results, ranking_metric, save_results
from regard.comparison.comparison_result import ComparisonResult
from regard.comparison.plan import Plan, prepare_plan, run_folder
from regard.comparison.report import render_report
from regard.comparison.request import ComparisonRequest, build_request
from regard.config.messages import show_messages
from regard.config.owned_folders import claim_folder, lock_output
from regard.errors import UserError
from regard.training.interrupts import Interrupted
from regard.training.progress import format_duration

logger = logging.getLogger(__name__)


class ComparisonStopped(Exception):
    """Raised after an interrupt. `result` has the runs that were finished by then."""

    def __init__(self, result: ComparisonResult):
        super().__init__("stopped")
        self.result = result


def compare(
    task: str,
    data: str | Path | Sequence[str | Path] | None = None,
    *,
    models: str | Sequence[Any],
    budget: str | Sequence[str] = (),
    seeds: int = 3,
    vary: Mapping[str, Sequence[Any]] | None = None,
    search: Mapping[str, Sequence[Any]] | None = None,
    metric: str | None = None,
    test: str | Path | Sequence[str | Path] | None = None,
    test_fraction: float = 0.2,
    split_seed: int = 0,
    generate: str | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    on: str = "local",
    progress: bool = True,
) -> ComparisonResult:
    """Train models under one budget, evaluate them on the same test items, and test which differences are significant.

    Args:
        task: "classify", "language", "translate", "recall" or "caption".
        data: Data files, as for `regard.train`.
        models: Names, with settings after a colon: ["han", "transformer:dim=64"] or "han,transformer:dim=64".
        budget: For each run: "2min", "2Tflops", "5Mtokens", "500steps" or "3epochs"; also "300kparameters".
        seeds: Runs of each design.
        vary: Settings and their values; each model is compared with each combination.
        search: Settings and values that each design tries first, within its budget.
        metric: The metric that ranks the designs; None for the first one of the task.
        test: Test files; None to hold out `test_fraction` of the data.
        generate: Synthetic data in place of files, such as "reviews:count=2000".
        settings: Settings of all runs, nested as in a recipe.
        out: Folder of the comparison; None for a new one in compared/. An existing one is resumed.
        on: Where runs are trained: "local" or "ray" (a cluster).

    Returns:
        Rows with ranks and intervals, a recommendation, and the path of the report.
    """
    folder = unused_folder(task, data) if out is None else Path(out)
    options = {
        "models": models,
        "budget": budget,
        "seeds": seeds,
        "vary": vary,
        "search": search,
        "metric": metric,
        "test": None if test is None else [str(file) for file in ([test] if isinstance(test, str | Path) else test)],
        "test_fraction": test_fraction,
        "split_seed": split_seed,
        "generate": generate,
    }
    request = build_request(task, data, settings or {}, folder, options)
    return run_comparison(request, folder, on=on, progress=progress)


def unused_folder(task: str | None, data: str | Path | Sequence[str | Path] | None) -> Path:
    """Return the first folder compared/NAME-TASK, -2, -3, ... that does not exist."""
    files = [data] if isinstance(data, str | Path) else list(data or ())
    stem = Path(files[0]).name.split(".")[0] if files else "generated"
    number, folder = 1, Path("compared") / f"{stem}-{task}"
    while folder.exists():
        number += 1
        folder = Path("compared") / f"{stem}-{task}-{number}"
    return folder


def run_comparison(
    request: ComparisonRequest, out: str | Path, *, on: str = "local", progress: bool = True
) -> ComparisonResult:
    """Train every design with every seed, evaluate each run on the test part once, and write the report into `out`.

    Called again with the same folder it resumes; models and seeds may be added. Raises `ComparisonStopped` after an
    interrupt, when the finished runs are evaluated and reported.
    """
    show_messages()
    claim_folder(Path(out), "comparison")
    with lock_output(Path(out)):
        return _run_comparison(request, Path(out), on, progress)


def _run_comparison(request: ComparisonRequest, out: Path, on: str, progress: bool) -> ComparisonResult:
    plan = plan_comparison(request, out, on=on)
    try:
        plan = ray_backend.train_all(plan, out) if on == "ray" else train_runs.train_all(plan, out, progress)
    except (Interrupted, KeyboardInterrupt):
        logger.info("stopped; finished runs are evaluated and reported (interrupt again to skip the evaluation)")
        try:
            result = finish_comparison(plan, out, inspect_attention=False)
        except (Interrupted, KeyboardInterrupt):
            result = finish_comparison(plan, out, inspect_attention=False, score=False)
        raise ComparisonStopped(result) from None
    try:
        return finish_comparison(plan, out)
    except (Interrupted, KeyboardInterrupt):
        raise ComparisonStopped(finish_comparison(plan, out, inspect_attention=False, score=False)) from None


def plan_comparison(request: ComparisonRequest, out: Path, *, on: str = "local") -> Plan:
    """Write or extend the plan, and log what will be trained, how long it takes and how much disk space it needs."""
    if on not in ("local", "ray"):
        raise UserError(f"runs are trained on local or on ray, not on {on!r}")
    if on == "ray":
        ray_backend.import_ray()  # fail before anything is written
    ranking_metric(request)
    plan = prepare_plan(request, out)
    remaining = sum(not train_runs.is_finished(run_folder(out, planned.design, seed)) for planned, seed in plan.runs)
    seconds = plan.expected_seconds() * remaining / max(len(plan.runs), 1)
    parts = ", ".join(f"{count:,} {part}" for part, count in plan.split["items"].items())
    runs = f"{len(plan.designs)} designs x {plan.request.seeds} seeds: {len(plan.runs)} runs of {plan.budget}"
    logger.info(f"{runs}, {remaining} to do")
    logger.info(f"items: {parts} (split once, the same for all runs)")
    logger.info(
        f"about {format_duration(seconds)} of training here, and {plan.expected_bytes() / 1e6:,.0f} MB in {out}"
    )
    return plan


def finish_comparison(plan: Plan, out: Path, *, inspect_attention: bool = True, score: bool = True) -> ComparisonResult:
    """Evaluate finished runs on the test part, and write results.json, results.csv and report.html."""
    if score:
        train_runs.score_all(plan, out)
    results = collect_results(plan, out, inspect_attention=inspect_attention)
    save_results(results, out)
    (out / "report.html").write_text(render_report(plan, results, out), encoding="utf-8")
    return ComparisonResult(results, out)
