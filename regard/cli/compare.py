"""`regard compare TASK DATA --models ...`: train several designs under one budget and test their differences."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.common import Config, Imports, Json, Quiet, Set
from regard.cli.derived_options import add_options, field_options
from regard.cli.train import built_in_tasks, collect_settings, settings_class
from regard.config.messages import configure
from regard.config.settings import load_settings
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.comparison import ComparisonRequest, ComparisonResult

RECIPE_KEYS = [
    "models",
    "vary",
    "search",
    "budget",
    "seeds",
    "test",
    "test_fraction",
    "split_seed",
    "metric",
    "generate",
]
"""Keys of a recipe that are about the comparison. All other keys are settings of the runs."""


def build_compare_command(arguments: Sequence[str] = ()) -> Callable[..., None]:
    """Build `regard compare` with the data options of the task in `arguments`."""
    task = next((word for word in arguments if word in built_in_tasks()), None)
    return add_options(compare, [] if task is None else field_options(settings_class(task), "data"))


def compare(
    task: Annotated[str | None, typer.Argument(help="classify, language, translate, recall or caption.")] = None,
    data: Annotated[list[str] | None, typer.Argument(help="The data, as for `regard train TASK`.")] = None,
    models: Annotated[
        str | None, typer.Option(help="Models, separated by commas; settings follow a colon: transformer:dim=64.")
    ] = None,
    vary: Annotated[
        list[str] | None, typer.Option(metavar="KEY=A,B", help="Train each model with each value; repeat for a grid.")
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=A,B", help="Values that each design tries first, within its budget."),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(help="For each run: 2min, 2Tflops, 5Mtokens, 500steps, 3epochs; and 300kparameters. [5epochs]"),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs of each design. [3]")] = None,
    test: Annotated[list[str] | None, typer.Option(help="Test file (two for pairs). [a fifth is held out]")] = None,
    metric: Annotated[
        str | None, typer.Option(help="Metric for the ranking: accuracy, macro_f1, loss, bleu, exact, ...")
    ] = None,
    generate: Annotated[
        str | None, typer.Option(help="Synthetic data instead of files, such as reviews:count=2000.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the comparison; an existing one is resumed.")] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Repeat another comparison with the same number of steps.")
    ] = None,
    on: Annotated[str, typer.Option(help="Where runs are trained: local, or ray (a cluster).")] = "local",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and exit.")] = False,
    config: Config = None,
    set_: Set = None,
    import_: Imports = None,
    quiet: Quiet = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Compare designs under one budget.

    Each design is trained with several seeds and evaluated on the same test examples. The report says which differences
    are significant. If it is interrupted, it reports what is finished, and the same command resumes. Classifiers are
    also compared with bag-of-words baselines (nb-svm and tfidf), unless one of them is named.

    Further options depend on the task: `regard compare TASK --help` shows them.

    \b
    Examples:
      regard compare classify reviews.csv --models han,nb-svm --budget 6steps --seeds 2 --out compared
      regard compare classify reviews.csv --models transformer --vary mechanism=dot,additive --budget 4steps --seeds 1
      regard compare language corpus.txt --models gpt,cnn --budget 2steps --seeds 1 --block-size 16 --out compared
      regard compare classify reviews.csv --models han,tfidf --budget 2min --seeds 3 --dry-run
    """
    from regard.comparison.plan import copy_plan
    from regard.comparison.run_comparison import ComparisonStopped, plan_comparison, run_comparison, unused_folder
    from regard.config.plugins import import_files
    from regard.training.interrupts import Interrupted

    if import_ and on == "ray":
        raise UserError("--import cannot be used with --on ray: the file is not on the cluster")
    configure("stderr" if json_ else "stdout", quiet=quiet)
    import_files(import_)
    given = {"models": models, "vary": vary or None, "search": search or None, "budget": budget or None}
    given |= {"seeds": seeds, "test": test or None, "metric": metric, "generate": generate}
    folder = out or unused_folder(task, data)
    with _remove_if_unused(folder, dry_run):
        if replay is not None:
            request = copy_plan(replay, folder)
        else:
            request = _build_request(task, data, given, config, options, set_, folder)
        if dry_run:
            plan = plan_comparison(request, folder, on=on)
            if json_:
                steps = {planned.name: planned.steps for planned in plan.designs}
                print(json.dumps({"designs": list(steps), "steps": steps}))
            return
        try:
            result = run_comparison(request, folder, on=on, progress=not quiet)
        except ComparisonStopped as stop:
            _print_result(stop.result, json_)
            again = f"--replay {replay} " if replay else ""
            print(f"regard: stopped; the same command resumes ({again}--out {folder})", file=sys.stderr)
            raise typer.Exit(130) from None
        except (Interrupted, KeyboardInterrupt):
            print(f"regard: stopped; nothing is lost. The same command resumes (--out {folder})", file=sys.stderr)
            raise typer.Exit(130) from None
    _print_result(result, json_)


def _build_request(
    task: str | None,
    data: list[str] | None,
    given: dict[str, Any],
    config: Path | None,
    options: dict[str, Any],
    set_: list[str] | None,
    folder: Path,
) -> ComparisonRequest:
    """Merge the recipe and the options into the request of a comparison."""
    from regard.comparison.request import build_request

    recipe = load_settings(config) if config else {}
    task = task or recipe.get("task")
    if task is None:
        raise UserError("name a task: regard compare classify FILE --models ..., or --config RECIPE")
    if data and given["generate"]:
        raise UserError(f"give a data file ({data[0]}) or --generate {given['generate']}, not both")
    settings = collect_settings(task, config, options, set_)
    request = {key: settings.pop(key) for key in RECIPE_KEYS if key in settings}
    request |= {key: value for key, value in given.items() if value is not None}
    return build_request(task, data or None, settings, folder, request)


@contextlib.contextmanager
def _remove_if_unused(folder: Path, dry_run: bool) -> Iterator[None]:
    """Remove the folder again if it was created here and the comparison did not start."""
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    keep = False
    try:
        yield
        keep = not dry_run
    except UserError:
        raise
    except BaseException:  # interrupted: the same command resumes
        keep = True
        raise
    finally:
        if created and not keep and not (folder / "runs").exists():
            shutil.rmtree(folder, ignore_errors=True)
            for path in created[1:]:
                with contextlib.suppress(OSError):
                    path.rmdir()


def _print_result(result: ComparisonResult, json_: bool) -> None:
    """Print the table of a comparison, or all results as JSON."""
    if json_:
        print(json.dumps({"out": str(result.folder), **result.data}, ensure_ascii=False))
        return
    from regard.comparison.terminal_table import print_comparison

    print_comparison(result)
