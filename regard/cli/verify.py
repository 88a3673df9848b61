"""`regard verify`: statements about attention, checked; and a run of your own held to what must be true of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.errors import UserError


def verify(
    run: Annotated[
        Path | None, typer.Argument(help="A run folder: check that model instead of the statements.", metavar="[RUN]")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Only this topic (see --list).")] = None,
    id: Annotated[str | None, typer.Option(help="Only this statement, by its id (see --list).")] = None,
    trained: Annotated[
        bool, typer.Option("--trained", help="Also those that train small models on generated data: minutes.")
    ] = False,
    timed: Annotated[bool, typer.Option("--timed", help="Also those that measure times on this machine.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Only name the statements.")] = False,
    seed: Annotated[int, typer.Option(help="Same seed, same figures.")] = 0,
    out: Annotated[Path | None, typer.Option(help="A folder for pages with plots, one for each topic.")] = None,
    import_: Annotated[
        list[Path] | None, typer.Option("--import", metavar="FILE.py", help="Your own mechanisms, as in training.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="JSON on stdout.")] = False,
) -> None:
    """Check what is said about attention: each statement with its equation, its figures and a verdict, holds, fails or
    undecided. Leaves with code 1 where one fails.

    \b
    Examples:
      regard verify --topic order
      regard verify --id crossings --json
      regard verify --list
      regard verify runs/gpt
    """
    from regard.config.plugins import import_files

    import_files(import_)
    if run is not None:
        if topic or id or trained or timed or list_ or out:
            raise UserError(
                "a run is checked as a whole: leave out --topic, --id, --trained, --timed, --list and --out"
            )
        from regard.theory.run_checks import check_run

        rows = check_run(run, seed)
        _show([row.as_dict() for row in rows], json_, wide=False)
    else:
        rows = _statements(topic, id, trained, timed, list_, seed, out, json_)
    if any(row.verdict == "fails" for row in rows):
        raise typer.Exit(1)


def _statements(
    topic: str | None,
    id: str | None,
    trained: bool,
    timed: bool,
    list_: bool,
    seed: int,
    out: Path | None,
    json_: bool,
) -> list[Any]:
    from regard.theory.claim import check_claim
    from regard.theory.verify_claims import select_claims

    kinds = ["exact", *(["timed"] if timed else []), *(["trained"] if trained else [])]
    if list_:
        kinds = ["exact", "timed", "trained"]
    claims = select_claims(topic, id, kinds)  # type: ignore[arg-type]
    if list_:
        _name([{"id": c.id, "topic": c.topic, "kind": c.kind, "statement": c.statement} for c in claims], json_)
        return []
    if not claims:
        raise UserError(f"topic {topic!r} has only statements that need --trained or --timed")
    rows, stopped = [], False
    for number, claim in enumerate(claims, 1):
        if sys.stderr.isatty():
            print(f"\r\x1b[K{number}/{len(claims)} {claim.id}", end="", file=sys.stderr, flush=True)
        try:
            rows.append(check_claim(claim, seed))
            if claim.kind != "exact" and not sys.stderr.isatty():  # minutes: a log shows how far it is
                print(f"{number}/{len(claims)} {claim.id}: {rows[-1].verdict}", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            print(f"\nstopped at {claim.id}; {len(rows)} of {len(claims)} were checked", file=sys.stderr)
            stopped = True
            break
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    _show([row.as_dict() for row in rows], json_, wide=id is not None or topic is not None)
    if out is not None:
        from regard.theory.claim_pages import write_pages

        for page in write_pages(rows, out):
            print(f"page: {page}", file=sys.stderr if json_ else sys.stdout)
    if stopped:
        raise typer.Exit(130)
    return rows


def _name(rows: list[dict[str, Any]], json_: bool) -> None:
    if json_:
        print(json.dumps(rows, ensure_ascii=False))
        return
    for row in rows:
        print(f"{row['id']:24} {row['topic']:26} {row['kind']:8} {row['statement'].split('. ')[0].rstrip('.')}.")


def _show(rows: list[dict[str, Any]], json_: bool, *, wide: bool) -> None:
    """All rows as JSON, as a table, or (few of them) with every figure."""
    if json_:
        print(json.dumps(rows, ensure_ascii=False))
        return
    if wide:
        for row in rows:
            _whole(row)
    else:
        for row in rows:
            print(f"{row['verdict']:10} {row['id']:24} {row['statement'].split('. ')[0].rstrip('.')}.")
            for name, said in row["tests"].items():
                if not said:
                    print(f"{'':10} {'not so' if said is False else 'cannot be said'}: {name}")
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in ("holds", "fails", "undecided")}
    print(", ".join(f"{count} {'hold' if v == 'holds' and count != 1 else v}" for v, count in counts.items() if count))


def _whole(row: dict[str, Any]) -> None:
    print(f"{row['id']} ({row['topic']}, {row['kind']}): {row['verdict']}")
    print(f"  {row['statement']}")
    print(f"  {row['equation']}")
    for name, figure in row["figures"].items():
        print(f"    {name}: {_figure(figure)}")
    for name, said in row["tests"].items():
        print(f"    {'yes' if said else 'cannot be said' if said is None else 'NO'}: {name}")
    if row["misstatement"]:
        print(f"  often told: {row['told']}")
    for name, figure in row["counterexample"].items():
        print(f"    {name}: {_figure(figure)}")
    print()


def _figure(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "[" + ", ".join(_figure(v) for v in value) + "]"
    if isinstance(value, dict):
        return ", ".join(f"{k}: {_figure(v)}" for k, v in value.items())
    return str(value)
