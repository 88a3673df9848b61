"""Claims about attention as checks that run: each with its equation, measured figures and a verdict.

    import regard
    for result in regard.verify(topic="order"):
        print(result.id, result.verdict)

Each file in `claims` is one topic and lists its CLAIMS.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.errors import UserError, suggest_choices
from regard.theory.claim import Claim, ClaimResults, Kind, check_claim
from regard.theory.claims import (
    architectures,
    closed_book_facts,
    copying_and_averaging,
    expressivity,
    hop_penalty,
    hop_penalty_training,
    layer_costs,
    length_generalization,
    long_range_recall,
    parallel_time,
    projections,
    query_key_merging,
    recurrent_attention,
    sentence_isolation,
    synthesizers,
    wallclock,
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
    *architectures.CLAIMS,
    *copying_and_averaging.CLAIMS,
    *hop_penalty.CLAIMS,
    *expressivity.CLAIMS,
    *wallclock.CLAIMS,
    *length_generalization.CLAIMS,
    *long_range_recall.CLAIMS,
    *hop_penalty_training.CLAIMS,
    *sentence_isolation.CLAIMS,
    *closed_book_facts.CLAIMS,
]


def verify(
    run: str | Path | None = None,
    *,
    topic: str | None = None,
    id: str | None = None,
    kinds: Sequence[Kind] = ("exact",),
    seed: int = 0,
) -> ClaimResults:
    """Check claims about attention, or the model of a run folder.

    Args:
        run: A run folder. Its model is checked (masks, padding, KV cache, ...) instead of the claims.
        topic: Check only the claims of this topic, such as "order".
        id: Check only this claim, whatever its kind.
        kinds: "exact" claims take seconds; "timed" claims measure this machine; "trained" claims train small models.
        seed: The same seed gives the same figures, except for timed claims.

    Returns:
        A list of `ClaimResult`, each with `id`, `statement`, `verdict` and `figures`.

    >>> verify(id="causal-mask")
    holds      causal-mask              -inf above the diagonal gives later positions a weight of exactly 0.
    1 holds
    """
    if run is not None:
        from regard.theory.run_checks import check_run

        if topic is not None or id is not None:
            raise UserError("verify(run) runs every check that applies to the run: leave out topic and id")
        return check_run(run, seed)
    return ClaimResults(check_claim(claim, seed) for claim in select_claims(topic, id, kinds))


def select_claims(topic: str | None = None, id: str | None = None, kinds: Sequence[Kind] = ("exact",)) -> list[Claim]:
    """Return the claims of these kinds and this topic, or the claim with this id."""
    if id is not None:
        claims = [claim for claim in CLAIMS if claim.id == id]
        if not claims:
            raise UserError(f"there is no claim {id!r}; {suggest_choices(id, [claim.id for claim in CLAIMS])}")
        return claims
    topics = sorted({claim.topic for claim in CLAIMS})
    if topic is not None and topic not in topics:
        raise UserError(f"there is no topic {topic!r}; {suggest_choices(topic, topics)}")
    return [claim for claim in CLAIMS if claim.kind in kinds and topic in (None, claim.topic)]
