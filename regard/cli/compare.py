"""`regard compare TASK FILE --models ...`"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli import options as o
from regard.config.messages import configure
from regard.config.settings import load, merge, overrides
from regard.errors import UserError

KEYS = ("models", "vary", "search", "budget", "seeds", "test", "test_fraction", "split_seed", "measure", "generate")


def compare(
    task: Annotated[str | None, typer.Argument(help="classify, language, translate, recall or caption.")] = None,
    data: Annotated[list[str] | None, typer.Argument(help="The data, as `regard train TASK` takes them.")] = None,
    models: Annotated[
        str | None, typer.Option(help="Names with commas; settings of a model after a colon: transformer:dim=64.")
    ] = None,
    vary: Annotated[
        list[str] | None, typer.Option(metavar="KEY=A,B", help="Each model with each value; again for a grid.")
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
    text: Annotated[str | None, typer.Option(help="classify: column of the text.")] = None,
    label: Annotated[str | None, typer.Option(help="classify: column of the class.")] = None,
    multi_label: Annotated[
        bool, typer.Option("--multi-label", help="classify: a document may have several labels, such as drama|war.")
    ] = False,
    class_weights: Annotated[str | None, typer.Option(help="classify: balanced, or good=1,bad=5. [all alike]")] = None,
    valid: Annotated[str | None, typer.Option(help="Validation file. [a part is set aside]")] = None,
    test: Annotated[list[str] | None, typer.Option(help="Test file (twice for two). [a fifth is set aside]")] = None,
    measure: Annotated[str | None, typer.Option(help="What ranks: accuracy, macro_f1, loss, bleu, exact, ...")] = None,
    generate: Annotated[
        str | None, typer.Option(help="Generated data in place of files, such as reviews:count=2000.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the comparison; the same one goes on.")] = None,
    replay: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The runs of another comparison again, by its steps.")
    ] = None,
    on: Annotated[str, typer.Option(help="Where runs are trained: local, or ray (a cluster).")] = "local",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing more.")] = False,
    config: o.Config = None,
    set_: o.Set = None,
    import_: o.Imports = None,
    quiet: o.Quiet = False,
    json_: o.Json = False,
) -> None:
    """Compare designs under one budget: train each with several seeds, measure all on the same test items, say which
    can be told apart, and write a report. Stopped, it reports what is done; the same command goes on. Beside
    classifiers stand bags of words (nb-svm and tfidf), unless one of them is named.

    \b
    Examples:
      regard compare classify reviews.csv --models han,nb-svm --budget 6steps --seeds 2 --out compared
      regard compare classify reviews.csv --models transformer --vary mechanism=dot,additive --budget 4steps --seeds 1
      regard compare language corpus.txt --models gpt,cnn --budget 2steps --seeds 1 --set data.block=16 --out compared
      regard compare classify reviews.csv --models han,tfidf --budget 2min --seeds 3 --dry-run
    """
    from regard.comparison.compare_designs import Stopped
    from regard.comparison.compare_designs import compare_designs as run
    from regard.comparison.designs import Asked, listed, varied, with_bags
    from regard.comparison.plan import replay as take_over
    from regard.config.plugins import import_files
    from regard.training.interrupts import Interrupted

    if import_ and on == "ray":
        raise UserError("a mechanism of your own (--import) is known here and not on a cluster: leave --on ray out")
    import_files(import_)
    configure("stderr" if json_ else "stdout", quiet=quiet)

    tree: dict[str, Any] = load(config) if config else {}
    task = task or tree.pop("task", None)
    asked_for = {key: tree.pop(key) for key in KEYS if key in tree}
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
    asked_for |= {key: value for key, value in given.items() if value is not None}
    if data:  # files that are named here go before what a recipe would generate
        if generate:
            raise UserError(f"{data[0]} or --generate {generate}? give one of them")
        asked_for.pop("generate", None)
    place = out or _free(task, data)
    with _tidy(place, dry_run):
        if replay is not None:
            asked = take_over(replay, place)
        else:
            if task is None:
                raise UserError("which task? regard compare classify FILE --models ..., or --config RECIPE")
            if tree.pop("task", task) != task:
                raise UserError(f"{config} is a recipe for another task than {task!r}")
            columns = {"text": text, "label": label, "labels": "many" if multi_label else None}
            files = {"train": _train(task, data), "valid": valid}
            flags = {"data": {**files, **columns, "class_weights": class_weights}}
            settings = merge(merge(tree, o.given(flags)), overrides(set_ or []))
            if wanted := asked_for.pop("generate", None):
                from regard.comparison.synthetic_data import write

                settings = merge(settings, {"data": write(task, wanted, place / "generated", asked_for)})
            usual = {"models": [], "measure": _measure(settings.get("data") or {})}
            asked_for = _lists({"task": task, "settings": settings, **usual, **asked_for})
            asked = Asked(**{**asked_for, "models": with_bags(task, asked_for["models"])})
        try:
            found = run(asked, place, on=on, dry=dry_run, progress=not quiet)
        except Stopped as stop:
            tell(stop.found, place, json_)
            again = f"--replay {replay} " if replay else ""
            print(f"regard: stopped; the same command goes on ({again}--out {place})", file=sys.stderr)
            raise typer.Exit(130) from None
        except (Interrupted, KeyboardInterrupt):
            print(f"regard: stopped; nothing is lost. The same command goes on (--out {place})", file=sys.stderr)
            raise typer.Exit(130) from None
    if dry_run:
        if json_:
            print(json.dumps(found))
        return
    tell(found, place, json_)


@contextlib.contextmanager
def _tidy(place: Path, dry: bool) -> Iterator[None]:
    """What was asked for in vain, or only tried, leaves nothing behind: a folder that was made here goes again."""
    made = [folder for folder in (place, *place.parents) if not folder.exists()]
    kept = False
    try:
        yield
        kept = not dry
    except UserError:
        raise
    except BaseException:  # stopped: the same command goes on
        kept = True
        raise
    finally:
        if made and not kept and not (place / "runs").exists():
            shutil.rmtree(place, ignore_errors=True)
            for folder in made[1:]:
                with contextlib.suppress(OSError):
                    folder.rmdir()


def tell(found: dict[str, Any], place: Path, json_: bool) -> None:
    """The table on the terminal, or all as JSON."""
    if json_:
        print(json.dumps({"out": str(place), **found}, ensure_ascii=False))
        return
    from regard.comparison.terminal_table import show

    show(found, place)


def _train(task: str, data: list[str] | None) -> Any:
    if not data:
        return None
    if task == "classify":
        if len(data) > 1:
            raise UserError(f"classify takes one file, and {len(data)} were given")
        return str(Path(data[0]).absolute())
    return [str(Path(file).absolute()) for file in data]


def _measure(data: dict[str, Any]) -> str | None:
    """What ranks classifiers where none is named: by what training chooses its best model too."""
    weighed = data.get("class_weights") not in (None, "none")
    return "macro_f1" if weighed else "micro_f1" if data.get("labels") == "many" else None


def _lists(asked: dict[str, Any]) -> dict[str, Any]:
    """A recipe may say `budget: 2min` for a list of one, and values of a setting as numbers."""
    for key in ("models", "budget", "test"):
        if isinstance(asked.get(key), str | int | float | dict):
            asked[key] = [asked[key]]
    for key in ("vary", "search"):
        values = asked.get(key) or {}
        if not isinstance(values, dict):
            raise UserError(f"{key} wants a mapping of settings to values, and was given {values!r}")
        asked[key] = {name: [str(v) for v in (one if isinstance(one, list) else [one])] for name, one in values.items()}
    if isinstance(asked.get("budget"), list):
        asked["budget"] = [str(one) for one in asked["budget"]]
    return asked


def _free(task: str | None, data: list[str] | None) -> Path:
    """The first folder under compared/ that is not there."""
    stem = Path(data[0]).name.split(".")[0] if data else "generated"
    number, folder = 1, Path("compared") / f"{stem}-{task}"
    while folder.exists():
        number += 1
        folder = Path("compared") / f"{stem}-{task}-{number}"
    return folder
