"""`regard translate`: translate the lines of a file or of standard input."""

from __future__ import annotations

import contextlib
import json
import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from regard.cli.common import Imports, Json, RunFolder, Seed, check_utf8, open_run
from regard.errors import UserError

STDIN_BATCH = 64
"""Largest number of lines of standard input that are translated together."""
FILE_BATCH = 1024
"""Lines of a file that are sorted by length and translated together."""


def translate(
    run: RunFolder,
    file: Annotated[
        Path | None, typer.Argument(help="File with one source sentence per line (also .gz). [standard input]")
    ] = None,
    text: Annotated[str | None, typer.Option(help="One text, instead of a file.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size; 1 is greedy. [5]")] = None,
    alpha: Annotated[
        float | None, typer.Option(min=0.0, help="Length penalty: scores are divided by length ** alpha. [1]")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Sample with this temperature, instead of beam search.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Sample from the k most probable tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample from the most probable tokens whose probabilities add up to p.")
    ] = None,
    seed: Seed = 0,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Largest length of a translation.")] = None,
    alignments: Annotated[
        Path | None, typer.Option(help="Write word alignments to this file, one line `0-0 1-2` each (Pharaoh format).")
    ] = None,
    precision: Annotated[
        str,
        typer.Option(
            help="Precision of the weights: float32, or float16 or int8 (faster). Without AVX-512 VNNI an int8 "
            "translation may depend on the other lines of its batch."
        ),
    ] = "float32",
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Translate the lines of a file or of standard input.

    Lines of standard input are translated as they arrive. An empty line stays empty.

    \b
    Examples:
      regard translate runs/en-de val.en
      regard translate runs/en-de val.en --beam 1 --alignments val.align --json
      regard translate runs/en-de --text "A dog runs." --temperature 0.8 --seed 1
      cat val.en | regard translate runs/en-de
    """
    from regard.decoding.sampling import Sampling
    from regard.training.environment import prepare_process

    if file is not None and text is not None:
        raise UserError("give a file or --text, not both")
    if file is None and text is None and sys.stdin.isatty():
        raise UserError("give a file, --text TEXT, or lines on standard input: regard translate RUN FILE")
    _check_decoding(temperature, {"--top-k": top_k, "--top-p": top_p}, {"--beam": beam, "--alpha": alpha})
    model = open_run(run, import_, "translate")
    prepare_process()  # keep freed memory for the caches
    options: dict[str, Any] = {
        "beam": beam or 5,
        "alpha": 1.0 if alpha is None else alpha,
        "sampling": None if temperature is None else Sampling(temperature, top_k, top_p, seed),
        "max_new_tokens": max_new_tokens,
        "precision": precision,
        "align": alignments is not None,
    }
    batches = _read_batches(file, text)  # raises before the file of alignments is overwritten
    with contextlib.ExitStack() as stack:
        links = None if alignments is None else stack.enter_context(open(alignments, "w", encoding="utf-8"))
        try:
            for batch in batches:
                _print_translations(model.translate_all(batch, **options), links, json_)
        except KeyboardInterrupt:  # the translations so far are printed
            raise typer.Exit(130) from None


def _check_decoding(temperature: float | None, sampling: dict[str, Any], beams: dict[str, Any]) -> None:
    """Raise UserError if options of sampling and of beam search are mixed."""
    sampling, beams = ({k: v for k, v in options.items() if v is not None} for options in (sampling, beams))
    if sampling and temperature is None:
        raise UserError(f"{' and '.join(sampling)} need --temperature, which turns sampling on")
    if beams and temperature is not None:
        raise UserError(f"--temperature (sampling) and {' and '.join(beams)} (beam search) exclude each other")


def _print_translations(translations: list[Any], links: IO[str] | None, json_: bool) -> None:
    from regard.tasks.translate.alignment import format_pharaoh

    for translation in translations:
        print(json.dumps(translation.as_dict(), ensure_ascii=False) if json_ else translation.text)
        if links is not None:
            links.write(format_pharaoh(translation.alignment) + "\n")
    sys.stdout.flush()
    if links is not None:
        links.flush()


def _read_batches(file: Path | None, text: str | None) -> Iterable[list[str]]:
    """Batches of lines of the file, of the text (one line), or of standard input."""
    if text is not None:
        return [[" ".join(check_utf8(text).splitlines())]]
    if file is None or str(file) == "-":
        return _read_standard_input(sys.stdin.buffer)
    from regard.data.parallel_text import read_lines

    lines, _ = read_lines(file)
    return [lines[first : first + FILE_BATCH] for first in range(0, len(lines), FILE_BATCH)]


def _read_standard_input(stream: IO[bytes]) -> Iterator[list[str]]:
    """Yield the lines that have arrived: one if they are typed, many from a pipe.

    If a line is not UTF-8, the lines before it are yielded before the error is raised.
    """
    from regard.data.read_table import decode_utf8

    lines: queue.Queue[bytes | None] = queue.Queue(STDIN_BATCH)

    def listen() -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=listen, daemon=True).start()
    number, is_last = 0, False
    while not is_last:
        batch = [lines.get()]
        while batch[-1] is not None and len(batch) < STDIN_BATCH and not lines.empty():
            batch.append(lines.get())
        is_last = batch[-1] is None
        texts, error = [], None
        try:
            for line in filter(None, batch):
                number += 1
                text = decode_utf8(line, f"standard input, line {number}")
                texts.append(text.removesuffix("\n").removesuffix("\r"))
        except UserError as problem:
            error = problem
        if texts:
            yield texts
        if error is not None:
            raise error
