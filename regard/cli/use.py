"""`regard evaluate` and `predict`: what a trained run is for."""

from __future__ import annotations

import inspect
import json
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.config.messages import configure
from regard.errors import UserError

logger = logging.getLogger(__name__)

MOST_CLASSES = 40  # in a printed table

RunFolder = Annotated[Path, typer.Argument(help="The run folder.", metavar="RUN")]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout.")]
Imports = Annotated[
    list[Path] | None, typer.Option("--import", metavar="FILE.py", help="Your own mechanisms, as in training.")
]


def open_run(run: Path, imports: list[Path] | None, verb: str) -> Any:
    """The run, if it is one that can do this."""
    from regard.config.plugins import import_files
    from regard.tasks.base_run import Run

    import_files(imports)
    opened = Run.load(run)
    if verb not in opened.verbs:
        can = ", ".join(opened.verbs)
        taught = getattr(opened, "objective", None)
        task = f"{opened.settings.task!r}" + (f" with the objective {taught!r}" if taught else "")
        raise UserError(f"{run} is a run of {task}, which cannot {verb}; it can {can}")
    return opened


def _whole(text: str) -> str:
    """What came on the command line, where bytes that are no text are let in by the system."""
    if text.encode("utf-8", "replace").decode() != text:
        raise UserError("the text is not valid UTF-8; set the terminal to UTF-8, or put the text into a file")
    if not text.strip():
        raise UserError("the text is empty")
    return text


def pictured(opened: Any) -> bool:
    """Whether a run takes the name of a picture where others take a text."""
    from regard.serve.worker import PICTURED

    return getattr(getattr(opened, "settings", None), "task", None) in PICTURED


def no_file(text: str, use: str = "use --file") -> None:
    """Raise where the name of a file was given as the text; a folder is one where its name is no plain word."""
    if os.path.isfile(text) or ("/" in text and os.path.isdir(text)):
        kind = "file" if os.path.isfile(text) else "folder"
        raise UserError(f"{text} is a {kind}; its name was not read as a text: {use}")


def evaluate(
    run: RunFolder,
    file: Annotated[str, typer.Argument(help="A file or folder like the one of training (with labels).")],
    references: Annotated[str | None, typer.Argument(help="Translators: the file of references.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of the text, if not that of training.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the class, if not that of training.")] = None,
    stride: Annotated[int | None, typer.Option(min=1, help="Language: how far the window moves.")] = None,
    source: Annotated[str | None, typer.Option(help="Translators, of a table: column of the source.")] = None,
    target: Annotated[str | None, typer.Option(help="Translators, of a table: column of the reference.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Translators, captioners: beams; 1 is greedy. [5]")] = None,
    alpha: Annotated[
        float | None, typer.Option(min=0.0, help="Translators, captioners: power of the length. [1; 0.7]")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(help="Translators: float32, float16 or int8 (rounded, faster). [float32]"),
    ] = None,
    alignments: Annotated[Path | None, typer.Option(help="Translators: true links (Pharaoh) of words.")] = None,
    consensus: Annotated[int | None, typer.Option(min=2, help="Captioners: of so many drawn, the agreed one.")] = None,
    boxes: Annotated[Path | None, typer.Option(help="Captioners: boxes of what words name, for pointing.")] = None,
    blank: Annotated[Path | None, typer.Option(help="Captioners: a run trained with --blank, to stand beside.")] = None,
    abstain: Annotated[float | None, typer.Option(help="Recall: the share of wrong answers that is borne.")] = None,
    out: Annotated[Path | None, typer.Option(help="Recall: a page with reliability and abstention (.html).")] = None,
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Measure a run on a file. Classifiers: accuracy, macro-F1, loss, and the numbers of each class. Language models:
    nats a token, perplexity, bits per character and byte, or the accuracy of the missing word. Translators: BLEU, chrF
    and TER by sacrebleu, with their signatures; `_lc` is without letter case. Recall: exact match, calibration and
    abstention. Captioners: BLEU-1 to 4, exact captions, and pointing where boxes are given.

    \b
    Examples:
      regard evaluate runs/han test.csv --json
      regard evaluate runs/gpt corpus.txt --stride 32
      regard evaluate runs/en-de val.en val.de --beam 5
      regard evaluate runs/closed others.tsv --out report.html
    """
    opened = open_run(run, import_, "evaluate")
    given: dict[str, Any] = {"text": text, "label": label, "stride": stride, "source": source, "target": target}
    given |= {"references": references, "beam": beam, "alpha": alpha, "precision": precision, "alignments": alignments}
    given |= {"abstain": abstain, "boxes": boxes, "blank": blank, "consensus": consensus, "out": out}
    given = {k: v for k, v in given.items() if v is not None}
    for name in given.keys() - inspect.signature(opened.evaluate).parameters.keys():
        said = "a second file" if name == "references" else f"--{name}"
        raise UserError(f"{said} says nothing to a run of {opened.settings.task!r}; leave it out")
    if "told" in inspect.signature(opened.evaluate).parameters and sys.stderr.isatty():
        given["told"] = _counter()
    configure("stderr" if json_ else "stdout")
    measured = opened.evaluate(file, **given)
    if json_:
        print(json.dumps(measured))
        return
    classes, signatures = measured.pop("classes", {}), measured.pop("signatures", {})
    curve, levels, around = (measured.pop(key, []) for key in ("reliability", "abstention", "intervals"))
    strange = [measured.pop(key, None) for key in ("likeness", "bias")]
    for name, value in measured.items():
        told = "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
        print(f"{name:15} {told}" + (f"  ({around[name][0]:.4f} to {around[name][1]:.4f})" if name in around else ""))
    for name, signature in signatures.items():
        print(f"{name:15} {signature}")
    for row in curve:
        right = f"{row['right']:.4f} ({row['low']:.4f} to {row['high']:.4f}) right of {row['count']:,}"
        print(f"sure {row['from']:.1f} to {row['to']:.1f}  {right}")
    for row in levels:
        print(f"above {row['level']:.2f}: {row['answered']:7.2%} answered, {row['risk']:7.2%} of these wrong")
    if all(strange):
        from regard.tasks.recall.similarity import by_origin, like_nearest

        print(like_nearest(strange[0]), by_origin(strange[1]), sep="\n")
    if classes:
        print(_by_class(classes))


def _counter() -> Any:
    """Tells on a terminal how many are done."""
    done = 0

    def told(count: int) -> None:
        nonlocal done
        done += count
        print(f"\r{done:,} done ", end="", file=sys.stderr, flush=True)

    return told


def _by_class(classes: dict[str, dict[str, float]]) -> str:
    """A table, the largest classes first; of very many only the beginning."""
    wide = min(40, max(15, *map(len, classes)))
    lines = [f"\n{'class':{wide}} {'support':>9} {'precision':>9} {'recall':>9} {'f1':>9}"]
    for name, row in sorted(classes.items(), key=lambda pair: -pair[1]["support"])[:MOST_CLASSES]:
        shown = name if len(name) <= wide else name[: wide - 1] + "…"
        lines.append(
            f"{shown:{wide}} {row['support']:>9,} {row['precision']:>9.4f} {row['recall']:>9.4f} {row['f1']:>9.4f}"
        )
    if len(classes) > MOST_CLASSES:
        lines.append(f"and {len(classes) - MOST_CLASSES:,} smaller classes (--json gives all)")
    return "\n".join(lines)


def predict(
    run: RunFolder,
    text: Annotated[
        str | None, typer.Argument(help="The text; without it --file or standard input (also -), a text a line.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(help="A table of texts, a .txt file (one text a line), or a folder (one text a file)."),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column of the text, if not that of training.")] = None,
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Name the class (or the labels) of a text, of each text in a file or folder, or of each line of standard input. Of
    a folder the names of the files are told.

    \b
    Examples:
      regard predict runs/han "We loved every minute of it."
      regard predict runs/han --file new.csv --json
      regard predict runs/han --file books
      cat lines.txt | regard predict runs/han
    """
    from regard.data.read_table import decode_utf8, read_table

    if text is not None and file is not None:
        raise UserError("give a text or --file, not both")
    if text is None and file is None and sys.stdin.isatty():
        raise UserError('give a text, --file FILE, or lines on standard input: regard predict RUN "some text"')
    text, file = (None if given == "-" else given for given in (text, file))
    opened = open_run(run, import_, "predict")
    names: list[str] = []
    if text is not None:
        texts, rows = [_whole(text)], [0]
        if not pictured(opened):
            no_file(text, "use --file, which takes a .txt file as one text a line and a folder as one text a file")
    elif file is not None:
        table = read_table(file, text=column or opened.text_column, labelled=False)
        for note in table.notes:
            logger.info(note)
        texts, rows = table.texts, table.row_ids
        names = [name.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name in table.file_names]
    else:
        lines = decode_utf8(sys.stdin.buffer.read(), "standard input").split("\n")
        rows = [i for i, line in enumerate(lines) if line.strip()]
        texts = [lines[i].rstrip("\r") for i in rows]
        if not texts:
            raise UserError("standard input held no text")
        empty = len(lines) - len(texts) - (not lines[-1])
        if empty:
            logger.info(f"{empty} empty lines skipped")
    for i, (row, said, given) in enumerate(zip(rows, opened.predict(texts), texts, strict=True)):
        if json_:
            place = {} if text is not None else {"row": row, "name": names[i]} if names else {"row": row}
            print(json.dumps({**place, **said.as_dict(), "text": given}, ensure_ascii=False))
        elif text is not None:
            for label, p in sorted(said.probabilities.items(), key=lambda row: -row[1]):
                print(f"{label}\t{p:.4f}")
        else:
            named = [said.label] if said.labels is None else said.labels
            chances = " ".join(f"{said.probabilities[name]:.4f}" for name in named)
            told = [" ".join(part.split()) for part in (*names[i : i + 1], given)]  # a line a text
            print("\t".join(["|".join(named) or "-", chances or "-", *told]))
