"""The contract that every mechanism, every kind of position and every model keeps, for ours and for yours:

    from regard.testing import check_mechanism
    check_mechanism(MyMechanism)            # or by name: check_mechanism("local:window=3")

Each check is a function that asserts and says what broke. `CHECKS` holds them by name, for pytest.mark.parametrize.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from regard.attention.mechanisms.mechanism import Mechanism
from regard.errors import UserError, did_you_mean
from regard.testing import attention_weights, hooks, incremental, masking, numerics
from regard.testing.mechanism_case import KEYS, QUERIES, Case, Formula, cases, in_one_thread
from regard.testing.model_contract import MODEL_CHECKS, check_model
from regard.testing.numerics import ONCE
from regard.testing.position_contract import POSITION_CHECKS, check_positions

CHECKS: dict[str, Callable[[Case], None]] = {
    name: in_one_thread(check)
    for group in (numerics, attention_weights, masking, hooks, incremental)
    for name, check in group.CHECKS.items()
}


def check_mechanism(
    name_or_class: str | type[Mechanism],
    *,
    positions: str | None = None,
    checks: Iterable[str] | None = None,
    formula: Formula | None = None,
    lengths: tuple[int, int] = (QUERIES, KEYS),
    **options: Any,
) -> None:
    """Hold a mechanism to the contract, with every kind of positions it accepts; AssertionError says what broke.

    `options` are the mechanism's own; `formula` gives its logits in plain words, to be compared; `checks` chooses;
    `lengths` are those of queries and of a memory, where a mechanism computes long ones in another way.
    """
    chosen = list(CHECKS) if checks is None else list(checks)
    for name in chosen:
        if name not in CHECKS:
            raise UserError(f"there is no check {name!r}; {did_you_mean(name, CHECKS)}")
    for number, case in enumerate(
        cases(name_or_class, positions=positions, formula=formula, lengths=lengths, **options)
    ):
        for name in chosen:
            if number and name in ONCE:
                continue
            try:
                CHECKS[name](case)
            except AssertionError as problem:
                raise AssertionError(f"{case} breaks the contract ({name}): {problem}") from None
            except Exception as problem:
                raise AssertionError(f"{case} fails in the contract ({name}): {problem}") from problem


__all__ = [
    "CHECKS",
    "MODEL_CHECKS",
    "ONCE",
    "POSITION_CHECKS",
    "Case",
    "cases",
    "check_mechanism",
    "check_model",
    "check_positions",
]
