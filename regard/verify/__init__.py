"""Statements about attention as checks that run: each with its equation, its figures and a verdict.

    from regard.verify import verify
    for row in verify(topic="order"):
        print(row.id, row.verdict)

A file is a topic and holds its CLAIMS; a check is a plain function of a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.errors import UserError, choices
from regard.verify import (
    costs,
    facts,
    hops,
    isolation,
    limits,
    longer,
    merging,
    models,
    order,
    parallel,
    projections,
    recall,
    recurrent,
    shaping,
    structured,
    synthesizers,
    timed,
)
from regard.verify.claim import Claim, Found, Kind, Plot, Row, run

CLAIMS: list[Claim] = [
    *recurrent.CLAIMS,
    *projections.CLAIMS,
    *merging.CLAIMS,
    *costs.CLAIMS,
    *parallel.CLAIMS,
    *order.CLAIMS,
    *synthesizers.CLAIMS,
    *models.CLAIMS,
    *shaping.CLAIMS,
    *structured.CLAIMS,
    *limits.CLAIMS,
    *timed.CLAIMS,
    *longer.CLAIMS,
    *recall.CLAIMS,
    *hops.CLAIMS,
    *isolation.CLAIMS,
    *facts.CLAIMS,
]


def chosen(topic: str | None = None, id: str | None = None, kinds: Sequence[Kind] = ("exact",)) -> list[Claim]:
    """The claims of these kinds, of one topic, or the one of this id whatever its kind."""
    if id is not None:
        found = [claim for claim in CLAIMS if claim.id == id]
        if not found:
            raise UserError(f"there is no claim {id!r}; {choices(id, [claim.id for claim in CLAIMS])}")
        return found
    topics = sorted({claim.topic for claim in CLAIMS})
    if topic is not None and topic not in topics:
        raise UserError(f"there is no topic {topic!r}; {choices(topic, topics)}")
    return [claim for claim in CLAIMS if claim.kind in kinds and topic in (None, claim.topic)]


def verify(
    topic: str | None = None, id: str | None = None, kinds: Sequence[Kind] = ("exact",), seed: int = 0
) -> Iterator[Row]:
    """Check claims, one after the other."""
    for claim in chosen(topic, id, kinds):
        yield run(claim, seed)


__all__ = ["CLAIMS", "Claim", "Found", "Plot", "Row", "chosen", "run", "verify"]
