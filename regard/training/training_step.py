"""One step on a global batch, whatever the number of processes and micro-batches.

    loss = Σ_t weight_t · (Σ sum_t) / (Σ count_t)

The counts of all processes and micro-batches are added up before the first backward pass, so that accumulation and
several processes give the gradient of the big batch, however uneven the parts are.
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

Wishes = tuple[bool, ...]


@dataclass(frozen=True)
class StepResult:
    """What a step gave. `values` is (loss, each term, norm of the gradient if clipped): this process's share."""

    values: Tensor
    tokens: int
    requests: Wishes


class TrainingStep:
    """Does steps. `names` are the terms of the loss, in the order of `Done.values`, known after the first step."""

    def __init__(
        self,
        fabric: Fabric,
        model: nn.Module,
        optimizers: Sequence[Optimizer],
        task: Objective,
        settings: TrainSettings,
        wishes: Callable[[], Wishes],
    ) -> None:
        self.fabric, self.model, self.optimizers, self.task, self.settings = fabric, model, optimizers, task, settings
        self.wishes = wishes
        self.rank, self.world = fabric.global_rank, fabric.world_size
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.names: list[str] = []

    def __call__(self, indices: np.ndarray, epoch: int, lr: float) -> StepResult:
        """Train on the named items, of which this process takes its part."""
        fabric, task, world = self.fabric, self.task, self.world
        parts = [part for part in np.array_split(indices[self.rank :: world], self.settings.grad_accumulation) if len(part)]
        # A process without items goes through the motions with another's, since the others wait for its gradient.
        ghost = not parts
        batches = [task.batch(part, epoch) for part in (parts or [indices[:1]])]
        scales, tokens, wishes = self._agree(batches, ghost)
        seen: Tensor | None = None
        for number, batch in enumerate(batches, start=1):
            if fabric.device.type != "cpu":
                batch = fabric.to_device(batch)
            waits = world > 1 and number < len(batches)
            with fabric.no_backward_sync(self.model) if waits else contextlib.nullcontext():  # type: ignore[arg-type]
                loss, values = self._loss(batch, scales)
                # Processes average their gradients; times their number, that is the sum.
                fabric.backward(loss * world if world > 1 else loss)
            seen = values if seen is None else seen + values
        assert seen is not None
        norm = self._clip()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if norm is not None:
            seen = torch.cat((seen, norm.detach().reshape(1) / world))
        return StepResult(seen, tokens, wishes or self.wishes())

    def _agree(self, batches: list[Any], ghost: bool) -> tuple[dict[str, float], int, Wishes]:
        """By what to multiply each term's sum, the tokens of the global batch, and what any process wishes."""
        names = self.names = self.names or sorted(batches[0].counts)
        counts = [float(sum(batch.counts[name] for batch in batches)) for name in names]
        tokens, wishes = sum(batch.tokens for batch in batches), ()
        if self.world > 1:  # one exchange for all of it
            own = [0.0] * (len(names) + 1) if ghost else [*counts, float(tokens)]
            sent = torch.tensor([*own, *map(float, self.wishes())], dtype=torch.float64, device=self.fabric.device)
            received: list[float] = self.fabric.all_reduce(sent, reduce_op="sum").tolist()  # type: ignore[union-attr]
            counts, rest = received[: len(names)], received[len(names) :]
            tokens, wishes = int(rest[0]), tuple(wish > 0 for wish in rest[1:])
        scales = {n: 1.0 / count if count and not ghost else 0.0 for n, count in zip(names, counts, strict=True)}
        return scales, tokens, wishes

    def _loss(self, batch: Any, scales: dict[str, float]) -> tuple[Tensor, Tensor]:
        """The share of the loss that a micro-batch has, and (loss, each term) without their history."""
        terms = self.task.loss(self.model, batch)
        strange = [name for name in terms if name not in scales]
        if strange or not terms:
            raise ValueError(f"the terms of the loss are {list(terms)}, and the batch counts {list(scales)}")
        shares = {name: term.sum * scales[name] for name, term in terms.items()}
        loss: Any = None
        for name, share in shares.items():
            weighted = share if terms[name].weight == 1.0 else share * terms[name].weight
            loss = weighted if loss is None else loss + weighted
        if len(shares) < len(scales):  # a batch without a term: it had none to sum over
            shares = {name: shares.get(name, torch.zeros_like(loss)) for name in scales}
        seen = [loss, *(shares[name] for name in scales)]
        return loss, torch.stack([value.detach() for value in seen]).float()

    def _clip(self) -> Tensor | None:
        """Clip the gradient of all parameters together; its norm before that."""
        fabric, limit = self.fabric, self.settings.clip
        if limit <= 0:
            return None
        if fsdp.is_sharded(fabric):
            wrapped: Any = self.model
            return fabric.clip_gradients(wrapped, self.optimizers[0], max_norm=limit, error_if_nonfinite=False)
        for optimizer in self.optimizers:
            fabric.strategy.precision.unscale_gradients(fsdp.unwrap_optimizer(optimizer))
        norm = nn.utils.clip_grad_norm_(self.params, limit)
        # With a scaler an infinite gradient is no trouble: the step is left out.
        return None if self.settings.precision == "16-mixed" else norm
