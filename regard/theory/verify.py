"""Statements about attention as checks that run: each with its equation, its figures and a verdict.

    from regard.verify import verify
    for row in verify(topic="order"):
        print(row.id, row.verdict)

A file is a topic and holds its CLAIMS; a check is a plain function of a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.errors import UserError, choices
from regard.theory.claim import Claim, Found, Kind, Plot, Row, run
from regard.theory.claims import (
    birthplaces,
    expressivity,
    head_constructions,
    hop_penalty_training,
    layer_costs,
    length_generalization,
    long_range_recall,
    parallel_time,
    projections,
    query_key_merging,
    recurrent_attention,
    sentence_isolation,
    structured_penalty,
    synthesizers,
    wallclock,
    whole_models,
    word_order,
)

CLAIMS: list[Claim] = [
    *recurrent_attention.CLAIMS,
    *projections.CLAIMS,
    *query_key_merging.CLAIMS,
    *layer_costs.CLAIMS,
    *parallel_time.CLAIMS,
    *word_order.CLAIMS,
    *synthesizers.CLAIMS,
    *whole_models.CLAIMS,
    *head_constructions.CLAIMS,
    *structured_penalty.CLAIMS,
    *expressivity.CLAIMS,
    *wallclock.CLAIMS,
    *length_generalization.CLAIMS,
    *long_range_recall.CLAIMS,
    *hop_penalty_training.CLAIMS,
    *sentence_isolation.CLAIMS,
    *birthplaces.CLAIMS,
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
