"""`regard evaluate`: measure a run on a file."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from regard.cli.common import Imports, Json, RunFolder, open_run, progress_counter
from regard.cli.derived_options import add_options, find_run_class, method_options
from regard.config.messages import configure
from regard.errors import UserError

MAX_CLASSES = 40
"""Rows of the printed table of classes."""


def build_evaluate_command(arguments: Sequence[str] = ()) -> Callable[..., None]:
    """Build `regard evaluate` with the options of the run in `arguments`."""
    run_class = find_run_class(arguments)
    return add_options(evaluate, [] if run_class is None else method_options(run_class.evaluate))


def evaluate(
    run: RunFolder,
    files: Annotated[
        list[str], typer.Argument(help="Data like the training data, with labels or references.", metavar="FILE...")
    ],
    import_: Imports = None,
    json_: Json = False,
    **options: Any,
) -> None:
    """Measure a run on a file.

    Further options depend on the task of the run: `regard evaluate RUN --help` shows them.

    \b
    Classifiers        accuracy, macro-F1, loss, and precision, recall and F1 of each class
    Language models    loss in nats per token, perplexity, bits per character and byte; or accuracy of the blank
    Translators        BLEU, chrF and TER (sacrebleu) with their signatures; `_lc` is lowercased
    Recall             exact match, calibration and abstention
    Captioners         BLEU-1 to 4, exact captions, and pointing accuracy if boxes are given

    \b
    Examples:
      regard evaluate runs/han test.csv --json
      regard evaluate runs/gpt corpus.txt --stride 32
      regard evaluate runs/en-de val.en val.de --beam 5
      regard evaluate runs/closed others.tsv --out report.html
    """
    configure("stderr" if json_ else "stdout")
    model = open_run(run, import_, "evaluate")
    parameters = inspect.signature(model.evaluate).parameters
    max_files = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters.values())
    if len(files) > max_files:
        raise UserError(f"a run of {model.settings.task!r} is evaluated on {max_files} file(s), not {len(files)}")
    if "on_progress" in parameters and sys.stderr.isatty():
        options["on_progress"] = progress_counter("done")
    metrics = model.evaluate(*files, **options)
    if json_:
        print(json.dumps(metrics))
    else:
        print(format_metrics(metrics))


def format_metrics(metrics: dict[str, Any]) -> str:
    """Format the metrics of `Run.evaluate` for the terminal, a line each, tables last."""
    metrics = dict(metrics)
    classes, signatures = metrics.pop("classes", {}), metrics.pop("signatures", {})
    reliability, abstention = metrics.pop("reliability", []), metrics.pop("abstention", [])
    intervals = metrics.pop("intervals", {})
    similarity, bias = metrics.pop("similarity", None), metrics.pop("bias", None)
    lines = []
    for name, value in metrics.items():
        text = "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
        interval = f"  ({intervals[name][0]:.4f} to {intervals[name][1]:.4f})" if name in intervals else ""
        lines.append(f"{name:15} {text}{interval}")
    lines += [f"{name:15} {signature}" for name, signature in signatures.items()]
    for row in reliability:
        correct = f"{row['right']:.4f} ({row['low']:.4f} to {row['high']:.4f}) correct of {row['count']:,}"
        lines.append(f"confidence {row['from']:.1f} to {row['to']:.1f}  {correct}")
    for row in abstention:
        lines.append(
            f"above {row['threshold']:.2f}: {row['answered']:7.2%} answered, {row['risk']:7.2%} of these wrong"
        )
    if similarity and bias:
        from regard.tasks.recall.similarity import describe_bias, describe_similarity

        lines += [describe_similarity(similarity), describe_bias(bias)]
    return "\n".join([*lines, *(_format_classes(classes) if classes else [])])


def _format_classes(classes: dict[str, dict[str, float]]) -> list[str]:
    """Format a table of classes, the largest first; only the first rows if there are many."""
    width = min(40, max(15, *map(len, classes)))
    lines = ["", f"{'class':{width}} {'support':>9} {'precision':>9} {'recall':>9} {'f1':>9}"]
    for name, row in sorted(classes.items(), key=lambda item: -item[1]["support"])[:MAX_CLASSES]:
        label = name if len(name) <= width else name[: width - 1] + "…"
        numbers = " ".join(f"{row[key]:>9.4f}" for key in ("precision", "recall", "f1"))
        lines.append(f"{label:{width}} {row['support']:>9,} {numbers}")
    if len(classes) > MAX_CLASSES:
        lines.append(f"and {len(classes) - MAX_CLASSES:,} smaller classes (--json prints all)")
    return lines
