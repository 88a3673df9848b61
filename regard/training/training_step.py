"""One training step on a global batch, for any number of processes and micro-batches.

    loss = Σ_t weight_t · (Σ sum_t) / (Σ count_t)

The counts of all processes and micro-batches are summed before the first backward pass. So gradient accumulation and
several processes give the gradient of the global batch, however uneven the parts are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.config.settings import TrainSettings
from regard.training import fsdp
from regard.training.objective import Objective

Requests = tuple[bool, ...]


@dataclass(frozen=True)
class StepResult:
    """The result of a step. `values` is (loss, each term, gradient norm if clipped): the part of this process."""

    values: Tensor
    tokens: int
    requests: Requests


class TrainingStep:
    """Runs training steps. `names` are the loss terms in the order of `StepResult.values`, after the first step."""

    def __init__(
        self,
        fabric: Fabric,
        model: nn.Module,
        optimizers: Sequence[Optimizer],
        objective: Objective,
        settings: TrainSettings,
        requests: Callable[[], Requests],
    ) -> None:
        self.fabric, self.model, self.optimizers, self.objective, self.settings = (
            fabric,
            model,
            optimizers,
            objective,
            settings,
        )
        self.requests = requests
        self.rank, self.world_size = fabric.global_rank, fabric.world_size
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.names: list[str] = []

    def __call__(self, indices: np.ndarray, epoch: int, lr: float) -> StepResult:
        """Train on the items with these indices, of which this process takes its part."""
        fabric, objective, world_size = self.fabric, self.objective, self.world_size
        parts = [
            part
            for part in np.array_split(indices[self.rank :: world_size], self.settings.grad_accumulation)
            if len(part)
        ]
        # A process without items uses those of another with scale 0, since the others wait for its gradient.
        is_dummy = not parts
        batches = [objective.batch(part, epoch) for part in (parts or [indices[:1]])]
        scales, tokens, requests = self._share_counts(batches, is_dummy)
        values_sum: Tensor | None = None
        for i, batch in enumerate(batches, start=1):
            if fabric.device.type != "cpu":
                batch = fabric.to_device(batch)
            delay_sync = world_size > 1 and i < len(batches)
            with fabric.no_backward_sync(self.model) if delay_sync else contextlib.nullcontext():  # type: ignore[arg-type]
                loss, values = self._loss(batch, scales)
                # Processes average their gradients; times their i, that is the sum.
                fabric.backward(loss * world_size if world_size > 1 else loss)
            values_sum = values if values_sum is None else values_sum + values
        assert values_sum is not None
        norm = self._clip()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if norm is not None:
            values_sum = torch.cat((values_sum, norm.detach().reshape(1) / world_size))
        return StepResult(values_sum, tokens, requests or self.requests())

    def _share_counts(self, batches: list[Any], is_dummy: bool) -> tuple[dict[str, float], int, Requests]:
        """The factor of each term's sum, the tokens of the global batch, and the requests of all processes."""
        names = self.names = self.names or sorted(batches[0].counts)
        counts = [float(sum(batch.counts[name] for batch in batches)) for name in names]
        tokens, requests = sum(batch.tokens for batch in batches), ()
        if self.world_size > 1:  # one exchange for everything
            local = [0.0] * (len(names) + 1) if is_dummy else [*counts, float(tokens)]
            sent = torch.tensor([*local, *map(float, self.requests())], dtype=torch.float64, device=self.fabric.device)
            received: list[float] = self.fabric.all_reduce(sent, reduce_op="sum").tolist()  # type: ignore[union-attr]
            counts, others = received[: len(names)], received[len(names) :]
            tokens, requests = int(others[0]), tuple(requested > 0 for requested in others[1:])
        scales = {n: 1.0 / count if count and not is_dummy else 0.0 for n, count in zip(names, counts, strict=True)}
        return scales, tokens, requests

    def _loss(self, batch: Any, scales: dict[str, float]) -> tuple[Tensor, Tensor]:
        """The part of the loss of a micro-batch, and (loss, each term) detached."""
        terms = self.objective.loss(self.model, batch)
        unknown = [name for name in terms if name not in scales]
        if unknown or not terms:
            raise ValueError(f"loss() returned the terms {list(terms)}, but batch.counts has {list(scales)}")
        scaled_terms = {name: term.sum * scales[name] for name, term in terms.items()}
        loss: Any = None
        for name, scaled in scaled_terms.items():
            weighted = scaled if terms[name].weight == 1.0 else scaled * terms[name].weight
            loss = weighted if loss is None else loss + weighted
        if len(scaled_terms) < len(scales):  # a batch without items of a term
            scaled_terms = {name: scaled_terms.get(name, torch.zeros_like(loss)) for name in scales}
        values = [loss, *(scaled_terms[name] for name in scales)]
        return loss, torch.stack([value.detach() for value in values]).float()

    def _clip(self) -> Tensor | None:
        """Clip the gradient of all parameters together. Returns its norm before."""
        fabric, limit = self.fabric, self.settings.clip
        if limit <= 0:
            return None
        if fsdp.is_sharded(fabric):
            wrapped: Any = self.model
            return fabric.clip_gradients(wrapped, self.optimizers[0], max_norm=limit, error_if_nonfinite=False)
        for optimizer in self.optimizers:
            fabric.strategy.precision.unscale_gradients(fsdp.unwrap_optimizer(optimizer))
        norm = nn.utils.clip_grad_norm_(self.params, limit)
        # With a gradient scaler an infinite gradient is no error: the step is skipped.
        return None if self.settings.precision == "16-mixed" else norm
