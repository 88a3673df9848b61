"""`regard look`, `heads`, `prune`: what a model looks at, and which heads matter; `demo`: all of it, no download."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.use import Imports, RunFolder, _whole, no_file, pictured
from regard.config.messages import configure
from regard.errors import UserError


def open_any(folder: Path, imports: list[Path] | None, verb: str) -> Any:
    """A run or an imported model, if it is one that can do this."""
    from regard.config.plugins import import_files
    from regard.hub.load_any import opened

    import_files(imports)
    found = opened(folder)
    if verb not in found.verbs:
        raise UserError(f"{folder} cannot {verb}; it can {', '.join(found.verbs)}")
    return found


def _given(text: str | None, file: str | None, pictures: bool) -> str:
    """The text to look at, from the command line or from its file; of runs of pictures the name of one."""
    from regard.data.read_table import read_document

    if text is not None and file is not None:
        raise UserError("give a text or --file, not both")
    if file is not None:
        return _whole(file if pictures else read_document(file))
    if text is None:
        raise UserError('give a text, or --file FILE: regard look RUN "some text"')
    if not pictures:
        no_file(_whole(text))
    return _whole(text)


def look(
    run: Annotated[
        Path, typer.Argument(help="The run folder, or one of `regard import` or of Hugging Face.", metavar="RUN")
    ],
    text: Annotated[
        str | None, typer.Argument(help="The text to look at (or --file); for runs of pictures the file of one.")
    ] = None,
    file: Annotated[str | None, typer.Option(help="A file that is read whole, as one text.")] = None,
    out: Annotated[
        Path, typer.Option(help="The page (.html), the text drawn (.svg, .png), or its numbers (.json, .csv).")
    ] = Path("look.html"),
    label: Annotated[
        str | None, typer.Option(help="The class (or word) to ask about, if not the most probable one.")
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANGE",
            help="hide:WORD, ablate:SITE[:HEADS], uniform:SITE[:HEADS], swap:RUN:SITE[:HEADS]; may be repeated.",
        ),
    ] = None,
    beside: Annotated[
        Path | None, typer.Option(metavar="RUN2", help="Another run, or checkpoint, to stand beside it.")
    ] = None,
    evidence: Annotated[
        list[str] | None,
        typer.Option(metavar="WORDS", help="Words known to decide: how much of them was found. May be repeated."),
    ] = None,
    faithful: Annotated[bool, typer.Option(help="Measure how far to believe the picture.")] = True,
    import_: Imports = None,
    json_: Annotated[bool, typer.Option("--json", help="What was seen as JSON on stdout, and no page.")] = False,
) -> None:
    """Write one self-contained page that shows what the model looks at, and how far to believe it. Classifiers are
    asked about a class, language models about the next word or the one at [MASK], translators and captioners about each
    word. Of a picture, choose a place to see where it looks.

    \b
    Examples:
      regard look runs/han "The room was cold. We loved the food, though." --out look.html
      regard look runs/han "The room was cold. We loved the food, though." --label negative --out look.svg
      regard look runs/han "We loved the food." --what-if hide:loved --what-if uniform:all
      regard look runs/han "We loved the food." --evidence loved
      regard look runs/han --file books/one.txt --out look.html
      regard look runs/gpt "It was a dark" --out next.html
      regard look runs/bert "It was a [MASK] night" --no-faithful --json
      regard look runs/pictures photo.png --what-if hide:2,3 --out look.html
      regard look runs/scenes photo.png --out look.png
    """
    from regard.tasks.classify.look import form

    if not json_:
        form(out)
    opened = open_any(run, import_, "look")
    text = _given(text, file, pictured(opened))
    from regard.hub.load_any import changes_of

    if sys.stderr.isatty():
        from regard.explain.subject import progress

        progress.set(lambda done, of: print(f"\rmeasured {done} of {of} ", end="\r", file=sys.stderr, flush=True))
    how: dict[str, Any] = {"faithful": faithful, "changes": changes_of(what_if or [], text)}
    seen = opened.look(text, label=label, **how)
    if beside is not None:
        seen = seen.beside(open_any(beside, None, "look").look(text, label=label, faithful=faithful))
    if evidence:
        seen = seen.against(*evidence)
    if json_:
        print(seen.json())
        return
    if prediction := seen.data.get("prediction"):
        print(f"{prediction['label']}\t{prediction['probabilities'][prediction['label']]:.4f}")
    if "translation" in seen.data:
        print(seen.data["translation"])
    if seen.data.get("caption"):
        print(seen.data["caption"])
    if seen.data.get("faithfulness"):
        print(seen.data["faithfulness"]["sentence"])
    if found := seen.data.get("evidence_found"):
        share, k = seen.data["evidence_share"], found["of"]
        print(f"evidence: {share:.1%} of the attention; {found['found']} of its {k} words among the {k} most regarded")
    for change in seen.data.get("changes") or []:
        first = f", then {change['first']!r} {change['chance']:.4f}" if change["first"] is not None else ""
        print(f"{change['what']}: {change['before']:.4f} -> {change['after']:.4f}{first}")
    for note in seen.data["notes"]:
        print(note)
    kind = {".html": "page", ".svg": "drawing", ".png": "drawing"}.get(out.suffix.lower(), "numbers")
    print(f"{kind}: {seen.save(out)}")


def heads(
    run: RunFolder,
    file: Annotated[
        list[str],
        typer.Argument(help="A file like the one of training (translators: two); imported models: lines of text."),
    ],
    rows: Annotated[int, typer.Option(min=1, help="Texts that are read; tokens (in thousands) of a corpus.")] = 200,
    out: Annotated[Path | None, typer.Option(help="The table as .csv or .json.")] = None,
    import_: Imports = None,
    json_: Annotated[bool, typer.Option("--json", help="JSON on stdout.")] = False,
) -> None:
    """Which heads matter, over a data set: each is silenced by itself, and the run is measured again; so is each layer,
    silent and with attention forced even. The most important come first.

    \b
    Examples:
      regard heads runs/han test.csv
      regard heads runs/gpt corpus.txt --rows 1 --json
    """
    from regard.tasks.head_table import table

    opened = open_any(run, import_, "look")

    def told(done: int, of: int) -> None:
        print(f"\r{done} of {of} ", end="\n" if done == of else "", file=sys.stderr, flush=True)

    found = table(opened, file, rows=rows, told=told if sys.stderr.isatty() else None)
    if out is not None:
        found.save(out)
    print(json.dumps(found.as_dict()) if json_ else found)


def prune(
    run: RunFolder,
    heads: Annotated[list[str], typer.Argument(help="SITE:HEADS, such as layers.0:1,3.", metavar="SITE:HEADS...")],
    out: Annotated[Path, typer.Option(help="The folder of the new run.")],
    import_: Imports = None,
) -> None:
    """Take heads out for good and write the run without them: it says what the old one says with these heads silent.
    Of an imported model a Hugging Face folder is written.

    \b
    Example:
      regard prune runs/bert layers.0:1 --out runs/pruned
    """
    from regard.tasks.head_table import pruned

    opened = open_any(run, import_, "look")
    if not hasattr(opened, "save_pretrained"):
        raise UserError(f"{run} cannot be written without heads")
    print(f"run: {pruned(opened, heads).save_pretrained(out)}")


def demo(
    what: Annotated[str, typer.Argument(help="reviews: what models look at; recall: what models know.")] = "reviews",
    out: Annotated[
        Path | None, typer.Option(help="Where the runs and the report go. [demo; recall: demo-recall]")
    ] = None,
    reviews: Annotated[int, typer.Option(min=200, help="How many reviews to generate.")] = 24_000,
    people: Annotated[int, typer.Option(min=20, help="recall: how many people to generate.")] = 600,
    seed: Annotated[int, typer.Option(help="Same seed, same data.")] = 0,
) -> None:
    """Train a hierarchical attention network and a Transformer on generated reviews whose deciding words are known,
    beside a bag of words, and write a report. Or, with `recall`, train a closed and an open book on generated people
    with real birthplaces, ask both about somebody known and a stranger, and write how far to believe them.

    \b
    Examples:
      regard demo --out demo
      regard demo recall --out demo-recall
    """
    configure("stdout")
    if what == "recall":
        from regard.demo.recall_demo import demo as run_recall

        run_recall(out or Path("demo-recall"), people=people, seed=seed)
    elif what == "reviews":
        from regard.demo.reviews_demo import demo as run_demo

        run_demo(out or Path("demo"), reviews=reviews, seed=seed)
    else:
        raise UserError(f"the demo is of reviews or of recall, and {what!r} was given")
