"""`regard translate`: what a translator is for."""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from regard.cli.use import Imports, Json, RunFolder, open_run
from regard.errors import UserError

AT_ONCE = 64  # lines of standard input, where so many wait
OF_A_FILE = 1024  # lines of a file, which are sorted by length


def translate(
    run: RunFolder,
    file: Annotated[
        Path | None, typer.Argument(help="A file with a source a line (also .gz); - or nothing is standard input.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="A single text, instead of a file.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="So many beams; 1 is greedy. [5]")] = None,
    alpha: Annotated[
        float | None, typer.Option(min=0.0, help="Scores are divided by this power of the length. [1]")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Draw words by chance, instead of beams; 1: as learnt.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=1, help="Draw among the k likeliest words.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw among the words that together have the chance p.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed draws the same.")] = 0,
    tokens: Annotated[int | None, typer.Option(min=1, help="The most tokens of a translation.")] = None,
    alignments: Annotated[
        Path | None, typer.Option(help="Write which words belong together, as `0-0 1-2` a line (Pharaoh).")
    ] = None,
    precision: Annotated[
        str,
        typer.Option(
            help="Of the weights: float32, or float16 or int8 (rounded, faster). Without AVX-512 VNNI a "
            "translation in int8 may hang on the lines that it is translated with."
        ),
    ] = "float32",
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Translate the lines of a file, or of standard input, each as it comes. An empty line becomes an empty line.

    \b
    Examples:
      regard translate runs/en-de val.en
      regard translate runs/en-de val.en --beam 1 --alignments val.align --json
      regard translate runs/en-de --text "A dog runs." --temperature 0.8 --seed 1
      cat val.en | regard translate runs/en-de
    """
    from regard.decoding.sampling import Sampling
    from regard.training.environment import prepare

    if file is not None and text is not None:
        raise UserError("give a file or --text, not both")
    typed = file is None and text is None
    file = None if str(file) == "-" else file
    if typed and sys.stdin.isatty():
        raise UserError("give a file, --text TEXT, or lines on standard input: regard translate RUN FILE")
    drawn = [name for name, value in (("--top-k", top_k), ("--top-p", top_p)) if value is not None]
    if drawn and temperature is None:
        raise UserError(f"{' and '.join(drawn)} choose among words that are drawn; say --temperature too")
    beams = [name for name, value in (("--beam", beam), ("--alpha", alpha)) if value is not None]
    if beams and temperature is not None:
        raise UserError(f"words are drawn by --temperature, or chosen by beams: leave out {' and '.join(beams)}, or it")
    opened = open_run(run, import_, "translate")
    prepare()  # the process keeps freed memory, which caches are made of
    sampling = None if temperature is None else Sampling(temperature, top_k, top_p, seed)
    how: dict[str, Any] = {"beam": beam or 5, "alpha": 1.0 if alpha is None else alpha, "sampling": sampling}
    how |= {"limit": tokens, "precision": precision, "align": alignments is not None}
    parts = _waiting(sys.stdin.buffer) if file is None and text is None else _lines(file, text)
    links = None if alignments is None else open(alignments, "w", encoding="utf-8")  # noqa: SIM115
    try:
        for part in parts:
            _answer(opened.translate_all(part, **how), links, json_)
    except KeyboardInterrupt:  # what was translated stands there
        raise typer.Exit(130) from None
    finally:
        if links is not None:
            links.close()


def pairs(
    kind: Annotated[
        str,
        typer.Argument(help="dates (to ISO, spaces around the dashes) or numbers (from one language to another)."),
    ],
    out: Annotated[Path, typer.Option(help="The table to write; the true links stand beside it, in .align.")],
    count: Annotated[int, typer.Option(min=1, help="How many pairs.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed writes the same.")] = 0,
    source: Annotated[str | None, typer.Option(help="numbers: language of the source. [en]")] = None,
    target: Annotated[str | None, typer.Option(help="numbers: language of the target. [fr]")] = None,
) -> None:
    """Write pairs to learn from, for which it is known which words belong together. Nothing is downloaded.

    \b
    Examples:
      regard pairs dates --out dates.tsv --count 500
      regard pairs numbers --out numbers.tsv --source en --target fr --count 500
    """
    from regard.data.synthetic.aligned_pairs import generate_pairs

    if out.suffix.lower() != ".tsv":
        raise UserError(f"pairs are written as a table, NAME.tsv, and {str(out)!r} was given")
    if kind == "dates":
        for name, value in (("--source", source), ("--target", target)):
            if value is not None:
                raise UserError(f"{name} {value} is for numbers; dates are of many languages, to ISO: leave it out")
    languages = {"source": source or "en", "target": target or "fr"} if kind == "numbers" else {}
    made = generate_pairs(kind, count, seed, **languages)
    links = out.with_suffix(".align")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(f"{one.source}\t{one.target}\n" for one in made), encoding="utf-8")
    said = (" ".join(f"{s}-{t}" for s, t in one.alignment) for one in made)
    links.write_text("".join(f"{line}\n" for line in said), encoding="utf-8")
    print(f"{count:,} pairs: {out}; which words belong together: {links}")


def _answer(found: list[Any], links: IO[str] | None, json_: bool) -> None:
    for one in found:
        print(json.dumps(one.as_dict(), ensure_ascii=False) if json_ else one.text)
        if links is not None:
            from regard.tasks.translate.alignment import pharaoh

            links.write(pharaoh(one.alignment) + "\n")
    sys.stdout.flush()
    if links is not None:
        links.flush()


def _lines(file: Path | None, text: str | None) -> list[list[str]]:
    if file is None:
        assert text is not None
        if text.encode("utf-8", "replace").decode() != text:
            raise UserError("the text is not valid UTF-8; set the terminal to UTF-8, or put the text into a file")
        return [[" ".join(text.splitlines())]]
    from regard.data.parallel_text import read_lines

    whole, _ = read_lines(file)
    return [whole[first : first + OF_A_FILE] for first in range(0, len(whole), OF_A_FILE)]


def _waiting(stream: IO[bytes]) -> Iterator[list[str]]:
    """The lines that have come by now: one where they are typed, many where they wait in a pipe. Those before a line
    that is no text are given before that is said."""
    from regard.data.read_table import decode_utf8

    lines: queue.Queue[bytes | None] = queue.Queue(AT_ONCE)

    def listen() -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=listen, daemon=True).start()
    number, over = 0, False
    while not over:
        part = [lines.get()]
        while part[-1] is not None and len(part) < AT_ONCE and not lines.empty():
            part.append(lines.get())
        over = part[-1] is None
        texts, wrong = [], None
        try:
            for raw in part:
                if raw is not None:
                    number += 1
                    texts.append(
                        decode_utf8(raw, f"standard input, line {number}").removesuffix("\n").removesuffix("\r")
                    )
        except UserError as problem:
            wrong = problem
        if texts:
            yield texts
        if wrong is not None:
            raise wrong
