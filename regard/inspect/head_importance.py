"""Which heads matter: each is ablated by itself, and the model is measured again.

    importance(site, head) = measure(without the head) - measure(whole model)        (Michel et al. 2019, section 3.2)

Alone means alone: two heads that do the same look unimportant both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from regard.errors import UserError
from regard.inspect.edit import ablate, edit, uniform
from regard.inspect.prune import head_count
from regard.inspect.record import attends


@dataclass(frozen=True)
class Head:
    """What is measured without a head; head None is the whole site, and `how` "uniform" attention that regards all
    alike."""

    site: str
    head: int | None
    how: str
    measured: dict[str, float]
    change: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def importance(
    model: nn.Module,
    measure: Callable[[], Mapping[str, float]],
    *,
    sites: str | None = None,
    whole: bool = True,
    told: Callable[[int, int], Any] | None = None,
) -> tuple[dict[str, float], list[Head]]:
    """What `measure` gives for the whole model, and without each head; with `whole` also without each site, and with
    uniform attention there. `told` hears how many of how many are done."""
    found = attends(model, sites)
    if not found:
        raise UserError(f"{type(model).__name__} has no attention, so no heads")
    asked: list[tuple[str, int | None, str]] = []
    for site in found:
        count = head_count(model, site)
        asked += [(site, head, "ablate") for head in range(count or 0) if (count or 0) > 1]
        asked += [(site, None, "ablate"), (site, None, "uniform")] if whole else []
    before = dict(measure())
    rows = []
    for number, (site, head, how) in enumerate(asked):
        change = uniform() if how == "uniform" else ablate([head] if head is not None else None)
        with edit(model, site, change):
            after = dict(measure())
        rows.append(Head(site, head, how, after, {key: after[key] - before[key] for key in before}))
        if told is not None:
            told(number + 1, len(asked))
    return before, rows
