"""`regard data generate`: synthetic datasets whose ground truth is known. Nothing is downloaded."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.data.synthetic.aligned_pairs import AlignedPair

Seed = Annotated[int, typer.Option(min=0, help="Random seed. The same seed gives the same data.")]
Count = Annotated[int, typer.Option(min=1, help="Number of examples.")]
TsvOut = Annotated[Path, typer.Option(help="Table to write (.tsv); the true alignments go next to it, in .align.")]
CsvOut = Annotated[Path, typer.Option(help="Table to write (.csv).")]

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
generate = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(generate, name="generate", help="Generate a dataset whose ground truth is known.")


@generate.command()
def people(
    out: Annotated[Path, typer.Option(help="Folder for facts.txt, asked.tsv and others.tsv.")] = Path("people"),
    count: Annotated[int, typer.Option(min=2, help="Number of people.")] = 1000,
    phrasings: Annotated[int, typer.Option(min=1, help="Sentences about each person, up to 6.")] = 1,
    cities: Annotated[int, typer.Option(min=2, help="Number of birthplaces.")] = 200,
    seed: Seed = 0,
) -> None:
    """Facts about people with invented names, born in real cities, for `regard train recall`.

    Half of the people have a question and answer in asked.tsv; the others, in others.tsv, are for evaluation.

    \b
    Example:
      regard data generate people --count 200 --phrasings 2 --out people
    """
    from regard.data.synthetic.people import generate_people, write_people

    _check_new(out / "facts.txt", out / "asked.tsv", out / "others.tsv")
    dataset = generate_people(count, seed, phrasings=phrasings, num_cities=cities)
    write_people(dataset, out)
    print(f"{len(dataset.facts):,} sentences about {count:,} people: {out / 'facts.txt'}")
    print(f"try: regard train recall {out}/facts.txt {out}/asked.tsv --out runs/people")


@generate.command()
def scenes(
    out: Annotated[Path, typer.Option(help="Folder for the images, captions and boxes.")] = Path("scenes"),
    count: Annotated[int, typer.Option(min=1, help="Number of training scenes.")] = 8000,
    eval_count: Annotated[int, typer.Option(min=1, help="Number of scenes in each evaluation part.")] = 500,
    size: Annotated[int, typer.Option(min=32, help="Side of an image in pixels.")] = 64,
    seed: Seed = 0,
) -> None:
    """Images of two colored shapes, with a caption and the boxes of both, for `regard train caption`.

    unseen.zip has pairs of shapes that never occur together in train.zip. novel.zip has shapes that are new.

    \b
    Example:
      regard data generate scenes --count 60 --eval-count 10 --out scenes
    """
    from regard.data.synthetic.scene_files import write_scenes

    parts = ("train", "valid", "unseen", "novel")
    _check_new(*(out / f"{part}.{suffix}" for part in parts for suffix in ("zip", "captions.tsv", "boxes.tsv")))
    write_scenes(out, count, seed=seed, size=size, eval_count=eval_count)
    print(f"{count:,} training scenes; valid, unseen and novel have {eval_count:,} each: {out}")
    print(f"try: regard train caption {out}/train.zip {out}/train.captions.tsv --out runs/scenes")


@generate.command()
def dates(out: TsvOut, count: Count = 10_000, seed: Seed = 0) -> None:
    """Dates as people write them in many languages, and in ISO format, for `regard train translate`.

    \b
    Example:
      regard data generate dates --out dates.tsv --count 500
    """
    from regard.data.synthetic.aligned_pairs import generate_dates

    _write_pairs(out, generate_dates(count, seed))


@generate.command()
def numbers(
    out: TsvOut,
    count: Count = 10_000,
    source: Annotated[str, typer.Option(help="Language of the source.")] = "en",
    target: Annotated[str, typer.Option(help="Language of the target.")] = "fr",
    seed: Seed = 0,
) -> None:
    """Numbers in words, in two languages, for `regard train translate`.

    \b
    Example:
      regard data generate numbers --out numbers.tsv --source en --target fr --count 500
    """
    from regard.data.synthetic.aligned_pairs import generate_numbers

    _write_pairs(out, generate_numbers(count, seed, source=source, target=target))


@generate.command()
def reviews(out: CsvOut, count: Count = 6000, seed: Seed = 0) -> None:
    """Reviews in which one sentence decides the class, for `regard train classify`.

    \b
    Example:
      regard data generate reviews --out generated.csv --count 200
    """
    from regard.data.synthetic.reviews import generate_reviews

    _write_texts(out, ((review.text, review.label) for review in generate_reviews(count, seed)))


@generate.command()
def contexts(out: CsvOut, count: Count = 6000, seed: Seed = 0) -> None:
    """Texts in which the class depends on two sentences together, for `regard train classify`.

    \b
    Example:
      regard data generate contexts --out contexts.csv --count 200
    """
    from regard.data.synthetic.contexts import generate_contexts

    _write_texts(out, ((context.text, context.label) for context in generate_contexts(count, seed)))


def _check_new(*files: Path) -> None:
    """Raise UserError if a file exists: generated data never replace a file."""
    for file in files:
        if file.exists():
            raise UserError(f"{file} already exists and is not replaced; remove it, or use another --out")


def _write_pairs(out: Path, pairs: list[AlignedPair]) -> None:
    """Write source and target, separated by a tab, and the word alignments in Pharaoh format."""
    if out.suffix.lower() != ".tsv":
        raise UserError(f"--out must end in .tsv, not {str(out)!r}")
    links = out.with_suffix(".align")
    _check_new(out, links)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), encoding="utf-8")
    lines = (" ".join(f"{s}-{t}" for s, t in pair.alignment) for pair in pairs)
    links.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(pairs):,} pairs: {out}; word alignments: {links}")


def _write_texts(out: Path, rows: Iterable[tuple[str, str]]) -> None:
    """Write a table with the columns text and label."""
    if out.suffix.lower() != ".csv":
        raise UserError(f"--out must end in .csv, not {str(out)!r}")
    _check_new(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    table = list(rows)
    with out.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *table])
    print(f"{len(table):,} texts: {out}")
    print(f"try: regard train classify {out} --text text --label label --out runs/{out.stem}")
