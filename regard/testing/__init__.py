"""The contract of mechanisms, positions and models, for built-in ones and your own:

    from regard.testing import check_mechanism
    check_mechanism(MyMechanism)            # or by name: check_mechanism("local:window=3")

Each check is a function that asserts and says what failed. `CHECKS` holds them by name, for pytest.mark.parametrize.
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
    """Check that a mechanism fulfills the contract, with every kind of positions that it accepts.

    AssertionError says what failed.

    Args:
        name_or_class: A registered name with options, such as "local:window=3", or a class.
        positions: Name of the only positions to check. Default: all that the mechanism accepts.
        checks: Names of the checks, from `CHECKS`. Default: all.
        formula: Reference implementation of the logits; see `regard.testing.reference_formulas`.
        lengths: Number of queries, and of keys in cross-attention. Longer ones may use another code path.
        **options: Options of the mechanism.
    """
    names = list(CHECKS) if checks is None else list(checks)
    for name in names:
        if name not in CHECKS:
            raise UserError(f"there is no check {name!r}; {did_you_mean(name, CHECKS)}")
    all_cases = cases(name_or_class, positions=positions, formula=formula, lengths=lengths, **options)
    for number, case in enumerate(all_cases):
        for name in names:
            if number and name in ONCE:
                continue
            try:
                CHECKS[name](case)
            except AssertionError as error:
                raise AssertionError(f"{case} breaks the contract ({name}): {error}") from None
            except Exception as error:
                raise AssertionError(f"{case} raises an error in the contract ({name}): {error}") from error


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
