"""All mechanisms with all positions that they accept, and all position encodings, fulfill the contract."""

from __future__ import annotations

import pytest

from regard.attention.mechanisms import MECHANISMS
from regard.attention.positions import POSITIONS
from regard.errors import UserError
from regard.testing import CHECKS, ONCE, POSITION_CHECKS, Case, cases, check_mechanism
from regard.testing.position_contract import builder

# Options and lengths with other code paths: a window narrower than the sequence, sequences long enough for blocks,
# clipped distances, keys and values of different widths.
VARIANTS = [
    ("local:window=3", (11, 13)),
    ("local:window=3", (101, 103)),
    ("local-2d:window=1", (11, 13)),
    ("relative:clip=2", (11, 13)),
    ("relative:clip=2,values=false", (11, 13)),
    ("dot:key_width=4", (11, 13)),
    ("bare:key_width=4,scaled=true", (11, 13)),
]

SPECS = [*((name, (11, 13)) for name in MECHANISMS), *VARIANTS]
CASES = [
    (case, check)
    for spec, lengths in SPECS
    for number, case in enumerate(cases(spec, lengths=lengths))
    for check in CHECKS
    if number == 0 or check not in ONCE
]


@pytest.mark.parametrize(("case", "check"), CASES, ids=[f"{case}-{case.n}-{check}" for case, check in CASES])
def test_mechanism_fulfills_the_contract(case: Case, check: str):
    CHECKS[check](case)


@pytest.mark.parametrize("check", POSITION_CHECKS)
@pytest.mark.parametrize("name", [*POSITIONS, "axial:learned=true", "t5:bidirectional=false"])
def test_positions_fulfill_the_contract(name: str, check: str):
    POSITION_CHECKS[check](builder(name))


def test_the_first_case_is_without_positions():
    assert cases("dot")[0].positions == "none"
    assert {case.kind for case in cases("dot")} == {"none", "embed", "rotate", "bias"}


def test_unknown_names_are_errors_with_the_nearest():
    with pytest.raises(UserError, match="did you mean 'steps'"):
        check_mechanism("dot", checks=["step"])
    with pytest.raises(UserError, match="did you mean 'dot'"):
        check_mechanism("dott")
    with pytest.raises(UserError, match="key_width"):
        check_mechanism("dot", key_widht=3)
