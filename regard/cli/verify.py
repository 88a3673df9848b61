"""`regard verify`: check claims about attention, or a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.common import Imports, Json
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.theory.claim import Claim, ClaimResult, ClaimResults, Kind

OUTCOMES = {True: "yes", False: "NO", None: "undecided"}


def verify(
    run: Annotated[
        Path | None, typer.Argument(help="Run folder: check its model instead of the claims.", metavar="[RUN]")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Only the claims of this topic (see --list).")] = None,
    id: Annotated[str | None, typer.Option(help="Only the claim with this id (see --list).")] = None,
    trained: Annotated[
        bool, typer.Option("--trained", help="Also claims that train small models on generated data; takes minutes.")
    ] = False,
    timed: Annotated[bool, typer.Option("--timed", help="Also claims that measure times on this machine.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the claims and exit.")] = False,
    seed: Annotated[int, typer.Option(help="Random seed. The same seed gives the same figures.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for pages with plots, one for each topic.")] = None,
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Check claims about attention, or a run.

    Each claim has an equation, measured figures and a verdict: holds, fails or undecided. The exit code is 1 if one
    fails. A run is checked for leaks from the future, influence of padding, its KV cache and more.

    \b
    Examples:
      regard verify --topic order
      regard verify --id crossings --json
      regard verify --list
      regard verify runs/gpt
    """
    from regard.config.plugins import import_files
    from regard.theory.verify_claims import select_claims

    import_files(import_)
    if run is not None:
        if topic or id or trained or timed or list_ or out:
            raise UserError("verify RUN runs all checks: leave out --topic, --id, --trained, --timed, --list and --out")
        from regard.theory.run_checks import check_run

        results = check_run(run, seed)
        _print_results(results, json_, detailed=False)
    elif list_:
        _print_claims(select_claims(topic, id, ["exact", "timed", "trained"]), json_)
        return
    else:
        kinds: list[Kind] = ["exact", *(["timed"] if timed else []), *(["trained"] if trained else [])]  # type: ignore[list-item]
        claims = select_claims(topic, id, kinds)
        if not claims:
            raise UserError(f"topic {topic!r} has only claims that need --trained or --timed")
        results = _check_claims(claims, seed)
        _print_results(results, json_, detailed=id is not None or topic is not None)
        if out is not None:
            from regard.theory.claim_pages import write_pages

            for page in write_pages(results, out):
                print(f"page: {page}", file=sys.stderr if json_ else sys.stdout)
        if len(results) < len(claims):
            raise typer.Exit(130)
    if any(result.verdict == "fails" for result in results):
        raise typer.Exit(1)


def _check_claims(claims: list[Claim], seed: int) -> ClaimResults:
    """Check the claims and show progress. Ctrl-C returns the results so far."""
    from regard.theory.claim import ClaimResults, check_claim

    results, is_terminal = ClaimResults(), sys.stderr.isatty()
    for number, claim in enumerate(claims, 1):
        progress = f"{number}/{len(claims)} {claim.id}"
        if is_terminal:
            print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)
        try:
            results.append(check_claim(claim, seed))
        except KeyboardInterrupt:
            print(f"\nstopped at {claim.id}; {len(results)} of {len(claims)} were checked", file=sys.stderr)
            break
        if claim.kind != "exact" and not is_terminal:  # takes minutes: show progress in a log
            print(f"{progress}: {results[-1].verdict}", file=sys.stderr, flush=True)
    if is_terminal:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return results


def _print_claims(claims: list[Claim], json_: bool) -> None:
    if json_:
        rows = [{"id": c.id, "topic": c.topic, "kind": c.kind, "statement": c.statement} for c in claims]
        print(json.dumps(rows, ensure_ascii=False))
        return
    for claim in claims:
        print(f"{claim.id:24} {claim.topic:26} {claim.kind:8} {claim.statement.split('. ')[0].rstrip('.')}.")


def _print_results(results: ClaimResults, json_: bool, *, detailed: bool) -> None:
    """Print the results as JSON, as a table, or with all figures."""
    if json_:
        print(json.dumps([result.as_dict() for result in results], ensure_ascii=False))
        return
    for result in results:
        if detailed:
            _print_details(result)
            continue
        print(f"{result.verdict:10} {result.id:24} {result.summary}")
        for name, passed in result.tests.items():
            if not passed:
                print(f"{'':10} {OUTCOMES[passed]}: {name}")
    print(", ".join(f"{count} {verdict}" for verdict, count in results.counts.items() if count))


def _print_details(result: ClaimResult) -> None:
    print(f"{result.id} ({result.topic}, {result.kind}): {result.verdict}")
    print(f"  {result.statement}\n  {result.equation}")
    for name, figure in result.figures.items():
        print(f"    {name}: {_format(figure)}")
    for name, passed in result.tests.items():
        print(f"    {OUTCOMES[passed]}: {name}")
    if result.misstatement:
        print(f"  common misstatement: {result.misstatement}")
    for name, figure in result.counterexample.items():
        print(f"    {name}: {_format(figure)}")
    print()


def _format(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_format, value)) + "]"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_format(item)}" for key, item in value.items())
    return str(value)
