"""`regard compare TASK DATA --models ...`: train several designs under one budget and test their differences."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.common import Config, Imports, Json, Quiet, Set
from regard.cli.derived_options import add_options, field_options
from regard.cli.train import built_in_tasks, collect_settings, settings_class
from regard.config.messages import configure
from regard.config.settings import load_settings
from regard.errors import UserError

RECIPE_KEYS = (
    *("models", "vary", "search", "budget", "seeds", "test", "test_fraction", "split_seed", "measure", "generate"),
)
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
    measure: Annotated[
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
    from regard.comparison.compare_designs import Stopped, compare_designs
    from regard.comparison.designs import listed, varied
    from regard.config.plugins import import_files
    from regard.training.interrupts import Interrupted

    if import_ and on == "ray":
        raise UserError("--import cannot be used with --on ray: the file is not on the cluster")
    configure("stderr" if json_ else "stdout", quiet=quiet)
    import_files(import_)
    given = {
        "models": None if models is None else listed(models),
        "vary": varied(vary) if vary else None,
        "search": varied(search) if search else None,
        "budget": budget or None,
        "seeds": seeds,
        "test": test or None,
        "measure": measure,
        "generate": generate,
    }
    folder = out or _unused_folder(task, data)
    with _remove_if_unused(folder, dry_run):
        if replay is not None:
            from regard.comparison.plan import replay as read_replay

            request = read_replay(replay, folder)
        else:
            request = _build_request(task, data, given, config, options, set_, folder)
        try:
            result = compare_designs(request, folder, on=on, dry=dry_run, progress=not quiet)
        except Stopped as stop:
            print_result(stop.found, folder, json_)
            again = f"--replay {replay} " if replay else ""
            print(f"regard: stopped; the same command resumes ({again}--out {folder})", file=sys.stderr)
            raise typer.Exit(130) from None
        except (Interrupted, KeyboardInterrupt):
            print(f"regard: stopped; nothing is lost. The same command resumes (--out {folder})", file=sys.stderr)
            raise typer.Exit(130) from None
    if not dry_run:
        print_result(result, folder, json_)
    elif json_:
        print(json.dumps(result))


def _build_request(
    task: str | None,
    data: list[str] | None,
    given: dict[str, Any],
    config: Path | None,
    options: dict[str, Any],
    set_: list[str] | None,
    folder: Path,
) -> Any:
    """Merge the recipe and the options into the request of a comparison."""
    from regard.comparison.designs import Asked, with_bags

    recipe = load_settings(config) if config else {}
    task = task or recipe.get("task")
    if task is None:
        raise UserError("name a task: regard compare classify FILE --models ..., or --config RECIPE")
    request = {key: recipe[key] for key in RECIPE_KEYS if key in recipe}
    request |= {key: value for key, value in given.items() if value is not None}
    if data:  # files on the command line override generated data of a recipe
        if given["generate"]:
            raise UserError(f"give a data file ({data[0]}) or --generate {given['generate']}, not both")
        request.pop("generate", None)
        options = {**options, "data.train": _absolute_files(task, data)}
    settings = collect_settings(task, config, options, set_)
    settings = {key: value for key, value in settings.items() if key not in RECIPE_KEYS}
    if spec := request.pop("generate", None):
        from regard.comparison.synthetic_data import write

        settings["data"] = {**settings.get("data", {}), **write(task, spec, folder / "generated", request)}
    defaults = {"models": [], "measure": _default_measure(settings.get("data") or {})}
    request = _normalize({"task": task, "settings": settings, **defaults, **request})
    return Asked(**{**request, "models": with_bags(task, request["models"])})


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


def print_result(result: dict[str, Any], folder: Path, json_: bool) -> None:
    """Print the table of a comparison, or all results as JSON."""
    if json_:
        print(json.dumps({"out": str(folder), **result}, ensure_ascii=False))
        return
    from regard.comparison.terminal_table import show

    show(result, folder)


def _absolute_files(task: str, data: list[str]) -> str | list[str]:
    if task == "classify":
        if len(data) > 1:
            raise UserError(f"classify takes one file, not {len(data)}")
        return str(Path(data[0]).absolute())
    return [str(Path(file).absolute()) for file in data]


def _default_measure(data: dict[str, Any]) -> str | None:
    """The metric that ranks classifiers by default: the one that training uses to choose its best checkpoint."""
    weighted = data.get("class_weights") not in (None, "none")
    return "macro_f1" if weighted else "micro_f1" if data.get("multi_label") else None


def _normalize(request: dict[str, Any]) -> dict[str, Any]:
    """Turn single values into lists: a recipe may say `budget: 2min`, and numbers for the values of a setting."""
    for key in ("models", "budget", "test"):
        if isinstance(request.get(key), str | int | float | dict):
            request[key] = [request[key]]
    for key in ("vary", "search"):
        values = request.get(key) or {}
        if not isinstance(values, dict):
            raise UserError(f"{key} must be a mapping from settings to values, not {values!r}")
        request[key] = {
            name: [str(v) for v in (one if isinstance(one, list) else [one])] for name, one in values.items()
        }
    if isinstance(request.get("budget"), list):
        request["budget"] = [str(value) for value in request["budget"]]
    return request


def _unused_folder(task: str | None, data: list[str] | None) -> Path:
    """The first folder compared/NAME-TASK, -2, -3, ... that does not exist."""
    stem = Path(data[0]).name.split(".")[0] if data else "generated"
    number, folder = 1, Path("compared") / f"{stem}-{task}"
    while folder.exists():
        number += 1
        folder = Path("compared") / f"{stem}-{task}-{number}"
    return folder
