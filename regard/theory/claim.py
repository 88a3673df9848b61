"""A claim about attention, the check that measures it, and the result.

A check is a plain function of a seed. It returns measured figures and tests, each True, False or None (cannot be
decided). The verdict follows from the tests alone: `fails` if one is False, `undecided` if one is None or there are no
tests, `holds` if all are True.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from regard.data.frames import html_table, to_frame

Kind = Literal["exact", "timed", "trained"]
Verdict = Literal["holds", "fails", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("holds", "fails", "undecided")


@dataclass(frozen=True)
class Plot:
    """A line plot of a claim's page.

    Args:
        curves: Each {"name", "x", "y"}, with "low" and "high" for a band.
        log: The logarithmic axes: "", "x", "y" or "xy".
    """

    title: str
    x_label: str
    y_label: str
    curves: list[dict[str, Any]]
    log: str = ""


@dataclass(frozen=True)
class CheckResult:
    """What a check returns.

    Args:
        figures: The measured numbers by name.
        tests: What must be true, by name; None if the figures cannot decide it.
        counterexample: Figures that contradict the common misstatement of the claim.
    """

    figures: Mapping[str, Any]
    tests: Mapping[str, bool | None]
    counterexample: Mapping[str, Any] = field(default_factory=dict)
    plots: tuple[Plot, ...] = ()

    @property
    def verdict(self) -> Verdict:
        outcomes = list(self.tests.values())
        if any(outcome is not None and not outcome for outcome in outcomes):
            return "fails"
        return "undecided" if not outcomes or None in outcomes else "holds"


@dataclass(frozen=True)
class Claim:
    """A statement with its equation and its check.

    Args:
        kind: "exact" needs no training, "timed" measures seconds on this machine, "trained" trains small models.
        misstatement: How the claim is commonly misstated; "" if it is not.
    """

    id: str
    topic: str
    kind: Kind
    statement: str
    equation: str
    check: Callable[[int], CheckResult]
    misstatement: str = ""


@dataclass(frozen=True)
class ClaimResult:
    """A checked claim: its statement, measured figures, tests and verdict."""

    id: str
    topic: str
    kind: Kind
    statement: str
    equation: str
    figures: dict[str, Any]
    tests: dict[str, bool | None]
    verdict: Verdict
    misstatement: str
    counterexample: dict[str, Any]
    plots: tuple[Plot, ...] = field(default=(), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data, without the plots."""
        return {key: value for key, value in asdict(self).items() if key != "plots"}

    @property
    def summary(self) -> str:
        """The first sentence of the statement."""
        return self.statement.split(". ")[0].rstrip(".") + "."


class ClaimResults(list[ClaimResult]):
    """The results of `verify`: a list of `ClaimResult` that prints as a table."""

    @property
    def counts(self) -> dict[Verdict, int]:
        """The number of results by verdict."""
        return {verdict: sum(result.verdict == verdict for result in self) for verdict in VERDICTS}

    def __repr__(self) -> str:
        lines = [f"{result.verdict:10} {result.id:24} {result.summary}" for result in self]
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items() if count)
        return "\n".join([*lines, counts or "no claims"])

    def _repr_html_(self) -> str:
        return html_table(self._records())

    def to_frame(self) -> Any:
        """Return a DataFrame with one row per claim: pandas if it is installed, else polars."""
        return to_frame(self._records())

    def _records(self) -> list[dict[str, Any]]:
        names = ("id", "topic", "kind", "verdict", "statement", "equation")
        return [
            {name: getattr(result, name) for name in names}
            | {"figures": "; ".join(f"{name}: {figure}" for name, figure in result.figures.items())}
            for result in self
        ]


def check_claim(claim: Claim, seed: int = 0) -> ClaimResult:
    """Run the check of a claim. If the check raises, the verdict is undecided and the figures hold the error."""
    try:
        result = claim.check(seed)
    except Exception as problem:
        result = CheckResult({"error": f"{type(problem).__name__}: {problem}"}, {"the check ran": None})
    return ClaimResult(
        claim.id,
        claim.topic,
        claim.kind,
        claim.statement,
        claim.equation,
        to_json_data(result.figures),
        {name: None if outcome is None else bool(outcome) for name, outcome in result.tests.items()},
        result.verdict,
        claim.misstatement,
        to_json_data(result.counterexample),
        result.plots,
    )


def to_json_data(value: Any) -> Any:
    """Convert tensors, arrays and tuples to what JSON can hold. Floats are rounded to six significant digits."""
    if isinstance(value, Mapping):
        return {str(key): to_json_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_data(item) for item in value]
    if hasattr(value, "tolist"):
        return to_json_data(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    return value


def is_above(low: float, high: float, bound: float) -> bool | None:
    """Return whether a confidence interval lies above a bound; None if it contains the bound."""
    return True if low > bound else False if high < bound else None


def is_below(low: float, high: float, bound: float) -> bool | None:
    """Return whether a confidence interval lies below a bound; None if it contains the bound."""
    return is_above(-high, -low, -bound)
