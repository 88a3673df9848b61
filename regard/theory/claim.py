"""A claim and what was found of it. A check is a plain function of a seed that measures, and says what must be true.

The verdict follows from that alone: `fails` where something is not true, `undecided` where the figures cannot say (or
where nothing was asked), `holds` where all of it is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["exact", "timed", "trained"]
Verdict = Literal["holds", "fails", "undecided"]


@dataclass(frozen=True)
class Plot:
    """Curves of a page: each {"name", "x", "y"}. `log` names the axes that are logarithmic: "", "x", "y" or "xy"."""

    title: str
    x_label: str
    y_label: str
    curves: list[dict[str, Any]]
    log: str = ""


@dataclass(frozen=True)
class Found:
    """figures: what was measured; tests: what must be true, None where it cannot be said; counter: the figures against
    what is often told."""

    figures: Mapping[str, Any]
    tests: Mapping[str, bool | None]
    counter: Mapping[str, Any] = field(default_factory=dict)
    plots: tuple[Plot, ...] = ()

    @property
    def verdict(self) -> Verdict:
        said = list(self.tests.values())
        if any(one is not None and not one for one in said):
            return "fails"
        return "undecided" if not said or any(one is None for one in said) else "holds"


@dataclass(frozen=True)
class Claim:
    """told: how it is often told wrongly, where it is."""

    id: str
    topic: str
    kind: Kind
    claim: str
    equation: str
    check: Callable[[int], Found]
    told: str = ""


@dataclass(frozen=True)
class Row:
    """A claim with its verdict, as `--json` gives it."""

    id: str
    topic: str
    kind: Kind
    claim: str
    equation: str
    figures: dict[str, Any]
    tests: dict[str, bool | None]
    verdict: Verdict
    told: str
    counter: dict[str, Any]
    plots: tuple[Plot, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain data, without the plots."""
        return {key: value for key, value in asdict(self).items() if key != "plots"}


def run(claim: Claim, seed: int = 0) -> Row:
    """Check a claim. A check that breaks down says nothing of the claim: it is undecided, and the reason stands in
    the figures."""
    try:
        found = claim.check(seed)
    except Exception as problem:
        found = Found({"broke": f"{type(problem).__name__}: {problem}"}, {"the check ran": None})
    return Row(
        claim.id,
        claim.topic,
        claim.kind,
        claim.claim,
        claim.equation,
        plain(found.figures),
        {name: None if one is None else bool(one) for name, one in found.tests.items()},
        found.verdict,
        claim.told,
        plain(found.counter),
        found.plots,
    )


def plain(value: Any) -> Any:
    """Numbers and lists that JSON knows; long decimals cut to six digits, which is what a reader can use."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    return value


def above(low: float, high: float, bound: float) -> bool | None:
    """Whether what lies in (low, high) is above a bound: None where the interval holds it."""
    return True if low > bound else False if high < bound else None


def below(low: float, high: float, bound: float) -> bool | None:
    return above(-high, -low, -bound)
