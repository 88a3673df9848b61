"""`regard predict`: the classes of texts or images."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from regard.cli.common import Imports, Json, RunFolder, check_not_a_file, check_text, open_run, takes_images
from regard.cli.derived_options import add_options, find_run_class, make_option
from regard.errors import UserError

logger = logging.getLogger(__name__)

COLUMN_HELP = "Column of the text in --file. [the column of training]"


@dataclass(frozen=True)
class Inputs:
    """Texts (or image files) to classify, with their row numbers and, of a folder, their file names."""

    texts: list[str]
    rows: list[int]
    names: list[str] = field(default_factory=list)


def build_predict_command(arguments: Sequence[str] = ()) -> Callable[..., None]:
    """Build `regard predict` with the options of the run in `arguments`."""
    reads_tables = hasattr(find_run_class(arguments), "text_column")
    return add_options(predict, [make_option("column", str | None, COLUMN_HELP)] if reads_tables else [])


def predict(
    run: RunFolder,
    text: Annotated[
        str | None,
        typer.Argument(help="The text, or the image file. Without it: --file, or one text per line of standard input."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(help="A table, a .txt file (one text per line), or a folder (one text per file)."),
    ] = None,
    import_: Imports = None,
    json_: Json = False,
    **options: Any,
) -> None:
    """Predict the class of a text or image.

    Reads one text, each text in a file or folder, or each line of standard input.

    Further options depend on the task of the run: `regard predict RUN --help` shows them.

    \b
    Examples:
      regard predict runs/han "We loved every minute of it."
      regard predict runs/han --file new.csv --json
      regard predict runs/han --file books
      cat lines.txt | regard predict runs/han
    """
    if text is not None and file is not None:
        raise UserError("give a text or --file, not both")
    if text is None and file is None and sys.stdin.isatty():
        raise UserError('give a text, --file FILE, or lines on standard input: regard predict RUN "some text"')
    text, file = (None if value == "-" else value for value in (text, file))
    model = open_run(run, import_, "predict")
    if text is not None:
        if not takes_images(model):
            check_not_a_file(check_text(text), "use --file for a table, a .txt file or a folder")
        inputs = Inputs([check_text(text)], [0])
    elif file is not None:
        inputs = _read_file(file, options.get("column") or model.text_column)
    else:
        inputs = _read_standard_input()
    for i, (prediction, value) in enumerate(zip(model.predict(inputs.texts), inputs.texts, strict=True)):
        name = inputs.names[i] if inputs.names else None
        if json_:
            where = {} if text is not None else {"row": inputs.rows[i]} | ({} if name is None else {"name": name})
            print(json.dumps({**where, **prediction.as_dict(), "text": value}, ensure_ascii=False))
        elif text is not None:
            for label, p in sorted(prediction.probabilities.items(), key=lambda item: -item[1]):
                print(f"{label}\t{p:.4f}")
        else:
            print(_format_line(prediction, value, name))


def _read_file(file: str, column: str) -> Inputs:
    from regard.data.read_table import read_table

    table = read_table(file, text=column, has_labels=False)
    for note in table.notes:
        logger.info(note)
    names = [name.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name in table.file_names]
    return Inputs(table.texts, table.row_ids, names)


def _read_standard_input() -> Inputs:
    from regard.data.read_table import decode_utf8

    lines = decode_utf8(sys.stdin.buffer.read(), "standard input").split("\n")
    rows = [i for i, line in enumerate(lines) if line.strip()]
    if not rows:
        raise UserError("standard input contains no text")
    empty = len(lines) - len(rows) - (not lines[-1])
    if empty:
        logger.info(f"{empty} empty lines skipped")
    return Inputs([lines[i].rstrip("\r") for i in rows], rows)


def _format_line(prediction: Any, text: str, name: str | None) -> str:
    """Labels, probabilities, file name and text of one prediction, separated by tabs."""
    labels = [prediction.label] if prediction.labels is None else prediction.labels
    probabilities = " ".join(f"{prediction.probabilities[label]:.4f}" for label in labels)
    texts = [" ".join(part.split()) for part in (name, text) if part is not None]
    return "\t".join(["|".join(labels) or "-", probabilities or "-", *texts])
