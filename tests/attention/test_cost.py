"""Costs of the parts of a layer."""

from __future__ import annotations

from regard.attention.cost import Cost


def test_costs_of_parts_add_up():
    total = Cost(1, 10, 100, 2, 3) + Cost(5, 50, 500, 1, 4)
    assert total.as_dict() == {"params": 6, "flops": 60, "memory": 600, "steps": 2, "path": 4}
