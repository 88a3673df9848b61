"""The whole state of a model and its optimizers, whether each process holds it all or only a shard of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightning_fabric import Fabric
from lightning_fabric.strategies.fsdp import FSDPStrategy
from lightning_fabric.strategies.model_parallel import ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict as whole
from torch.optim import Optimizer

from regard.training import checkpoint

_FULL = whole.StateDictOptions(full_state_dict=True, cpu_offload=True)
_GIVEN = whole.StateDictOptions(full_state_dict=True, strict=False)  # tied weights stand once


def is_sharded(fabric: Fabric) -> bool:
    """Whether the strategy spreads the parameters over the processes."""
    return isinstance(fabric.strategy, (FSDPStrategy, ModelParallelStrategy))


def unwrap_optimizer(optimizer: Optimizer) -> Optimizer:
    """The optimizer inside Fabric's wrapper."""
    return getattr(optimizer, "optimizer", optimizer)


def full_weights(fabric: Fabric, model: nn.Module) -> dict[str, Tensor]:
    """All weights, tied ones once. Every process calls it; with shards only the first gets something."""
    state: Any = whole.get_model_state_dict(model, options=_FULL) if is_sharded(fabric) else model.state_dict()
    return checkpoint.drop_tied_tensors(state)


def full_optimizer_states(fabric: Fabric, model: nn.Module, optimizers: Sequence[Optimizer]) -> list[dict[str, Any]]:
    """The state of each optimizer, as for `weights`."""
    if is_sharded(fabric):
        return [whole.get_optimizer_state_dict(model, unwrap_optimizer(o), options=_FULL) for o in optimizers]
    return [unwrap_optimizer(o).state_dict() for o in optimizers]


def load_full_weights(fabric: Fabric, model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Put weights into the model."""
    if is_sharded(fabric):
        given: Any = weights
        whole.set_model_state_dict(model, given, options=_GIVEN)
    else:
        checkpoint.load_weights(model, weights)


def restore_checkpoint(fabric: Fabric, model: nn.Module, optimizers: Sequence[Optimizer], saved: checkpoint.Checkpoint) -> None:
    """Put the saved state into the model and its optimizers."""
    load_full_weights(fabric, model, saved.model)
    if is_sharded(fabric):
        for optimizer, state in zip(optimizers, saved.optimizers, strict=True):
            whole.set_optimizer_state_dict(model, unwrap_optimizer(optimizer), state, options=_GIVEN)
        return
    for optimizer, state in zip(optimizers, saved.optimizers, strict=True):
        unwrap_optimizer(optimizer).load_state_dict(state)
