"""`regard look`: a page that shows the attention of a model on one text or image, and how faithful it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.common import (
    Imports,
    Json,
    check_not_a_file,
    check_text,
    open_any,
    show_measuring_progress,
    takes_images,
)
from regard.cli.derived_options import add_options, find_run_class, method_options
from regard.errors import UserError

KINDS = {".html": "page", ".svg": "drawing", ".png": "drawing"}


def build_look_command(arguments: Sequence[str] = ()) -> Callable[..., None]:
    """Build `regard look` with the options of the run in `arguments`."""
    run_class = find_run_class(arguments)
    return add_options(look, [] if run_class is None else method_options(run_class.look))


def look(
    run: Annotated[Path, typer.Argument(help="Run folder, imported model or Hugging Face folder.", metavar="RUN")],
    text: Annotated[str | None, typer.Argument(help="The text (or --file); for image models an image file.")] = None,
    file: Annotated[str | None, typer.Option(help="File that is read as one text.")] = None,
    out: Annotated[
        Path, typer.Option(help="Output: a page (.html), a drawing (.svg, .png) or the numbers (.json, .csv).")
    ] = Path("look.html"),
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANGE",
            help="hide:WORD, ablate:LAYER[:HEADS], uniform:LAYER[:HEADS] or swap:RUN:LAYER[:HEADS]; may be repeated.",
        ),
    ] = None,
    beside: Annotated[
        Path | None, typer.Option(metavar="RUN2", help="Another run or checkpoint to show next to it.")
    ] = None,
    evidence: Annotated[
        list[str] | None,
        typer.Option(metavar="WORDS", help="Words that are known to matter: how much attention they get; repeatable."),
    ] = None,
    import_: Imports = None,
    json_: Json = False,
    **options: Any,
) -> None:
    """Show what a model attends to on a text or image.

    Writes one self-contained page, which also says how faithful the attention is to the prediction.

    Classifiers explain a class, language models the next token or the token at [MASK], translators and captioners each
    output word. For an image, choose a cell to see where it attends.

    Further options depend on the task of the run: `regard look RUN --help` shows them.

    \b
    Examples:
      regard look runs/han "The room was cold. We loved the food, though." --out look.html
      regard look runs/han "The room was cold. We loved the food, though." --label negative --out look.svg
      regard look runs/han "We loved the food." --what-if hide:loved --what-if uniform:all
      regard look runs/han "We loved the food." --evidence loved
      regard look runs/han --file books/one.txt --out look.html
      regard look runs/gpt "It was a dark" --out next.html
      regard look runs/bert "It was a [MASK] night" --no-faithful --json
      regard look runs/images photo.png --what-if hide:2,3 --out look.html
      regard look runs/scenes photo.png --out look.png
    """
    from regard.explain.look_result import check_save_path

    if not json_:
        check_save_path(out)
    model = open_any(run, import_)
    text = _read_input(text, file, takes_images(model))
    from regard.hub.load_any import parse_interventions

    show_measuring_progress()
    result = model.look(text, what_if=parse_interventions(what_if or [], text), **options)
    if beside is not None:
        result = result.compare_with(open_any(beside, None).look(text, **options))
    if evidence:
        result = result.with_evidence(*evidence)
    if json_:
        print(result.json())
        return
    for line in summary_lines(result.data):
        print(line)
    print(f"{KINDS.get(out.suffix.lower(), 'numbers')}: {result.save(out)}")


def _read_input(text: str | None, file: str | None, is_image: bool) -> str:
    """The text from the command line or from its file; for image models the name of the image file."""
    from regard.data.read_table import read_document

    if text is not None and file is not None:
        raise UserError("give a text or --file, not both")
    if file is not None:
        return check_text(file if is_image else read_document(file))
    if text is None:
        raise UserError('give a text, or --file FILE: regard look RUN "some text"')
    if not is_image:
        check_not_a_file(check_text(text))
    return check_text(text)


def summary_lines(data: dict[str, Any]) -> list[str]:
    """The prediction, its faithfulness and the effect of each change, as lines for the terminal."""
    lines = []
    if prediction := data.get("prediction"):
        lines.append(f"{prediction['label']}\t{prediction['probabilities'][prediction['label']]:.4f}")
    lines += [data[key] for key in ("translation", "caption") if data.get(key)]
    if data.get("faithfulness"):
        lines.append(data["faithfulness"]["verdict"])
    if top := data.get("evidence_recall"):
        fraction, k = data["evidence_fraction"], top["total"]
        lines.append(f"evidence: {fraction:.1%} of the attention; {top['found']} of its {k} words in the top {k}")
    for change in data.get("interventions") or []:
        first = (
            f", then {change['prediction']!r} {change['probability']:.4f}" if change["prediction"] is not None else ""
        )
        lines.append(f"{change['description']}: {change['before']:.4f} -> {change['after']:.4f}{first}")
    return lines + list(data["notes"])
