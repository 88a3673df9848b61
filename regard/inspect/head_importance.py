"""Which heads matter: the model is evaluated with each head ablated.

    importance(layer, head) = metric(without the head) - metric(full model)        (Michel et al. 2019, section 3.2)

Heads are ablated one at a time, so two heads that do the same both look unimportant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from regard.errors import UserError
from regard.inspect.edit import ablate, edit, uniform
from regard.inspect.prune import count_heads
from regard.inspect.record import find_attention_layers


@dataclass(frozen=True)
class HeadImportance:
    """Metrics with one head changed.

    Attributes:
        layer: Name of the attention layer.
        head: Number of the head; None for all heads of the layer.
        intervention: "ablate", or "uniform" for equal attention to all keys.
        metrics: Metrics of the changed model.
        change: Difference from the metrics of the full model.
    """

    layer: str
    head: int | None
    intervention: str
    metrics: dict[str, float]
    change: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def head_importance(
    model: nn.Module,
    evaluate: Callable[[], Mapping[str, float]],
    *,
    layers: str | None = None,
    include_layers: bool = True,
    on_progress: Callable[[int, int], Any] | None = None,
) -> tuple[dict[str, float], list[HeadImportance]]:
    """Evaluate a model without each of its heads.

    Args:
        model: The model whose heads are ablated.
        evaluate: Evaluates the model and returns its metrics.
        layers: Pattern of the layers to consider; all by default.
        include_layers: Also ablate whole layers, and make their attention uniform.
        on_progress: Called with the number of evaluations done and their total.

    Returns:
        Metrics of the full model, and one result per head and layer.
    """
    names = find_attention_layers(model, layers)
    if not names:
        raise UserError(f"{type(model).__name__} has no attention, so no heads")
    tasks: list[tuple[str, int | None, str]] = []
    for layer in names:
        count = count_heads(model, layer) or 0
        tasks += [(layer, head, "ablate") for head in range(count) if count > 1]
        tasks += [(layer, None, "ablate"), (layer, None, "uniform")] if include_layers else []
    full = dict(evaluate())
    results = []
    for done, (layer, head, intervention) in enumerate(tasks, start=1):
        edit_fn = uniform() if intervention == "uniform" else ablate([head] if head is not None else None)
        with edit(model, layer, edit_fn):
            metrics = dict(evaluate())
        change = {key: metrics[key] - full[key] for key in full}
        results.append(HeadImportance(layer, head, intervention, metrics, change))
        if on_progress is not None:
            on_progress(done, len(tasks))
    return full, results
