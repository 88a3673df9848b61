"""The full state of a model and its optimizers, whether each process has all of it or a shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightning_fabric import Fabric
from lightning_fabric.strategies.fsdp import FSDPStrategy
from lightning_fabric.strategies.model_parallel import ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict as dcp_state
from torch.optim import Optimizer

from regard.training import checkpoint

_FULL = dcp_state.StateDictOptions(full_state_dict=True, cpu_offload=True)
_PARTIAL = dcp_state.StateDictOptions(full_state_dict=True, strict=False)  # tied weights are saved once


def is_sharded(fabric: Fabric) -> bool:
    """Whether the strategy shards the parameters over the processes."""
    return isinstance(fabric.strategy, (FSDPStrategy, ModelParallelStrategy))


def unwrap_optimizer(optimizer: Optimizer) -> Optimizer:
    """The optimizer inside Fabric's wrapper."""
    return getattr(optimizer, "optimizer", optimizer)


def full_weights(fabric: Fabric, model: nn.Module) -> dict[str, Tensor]:
    """All weights, tied ones once. Every process must call it; with shards only rank 0 gets them."""
    state: Any = dcp_state.get_model_state_dict(model, options=_FULL) if is_sharded(fabric) else model.state_dict()
    return checkpoint.drop_tied_tensors(state)


def full_optimizer_states(fabric: Fabric, model: nn.Module, optimizers: Sequence[Optimizer]) -> list[dict[str, Any]]:
    """The state of each optimizer, as for `full_weights`."""
    if is_sharded(fabric):
        return [dcp_state.get_optimizer_state_dict(model, unwrap_optimizer(o), options=_FULL) for o in optimizers]
    return [unwrap_optimizer(o).state_dict() for o in optimizers]


def load_full_weights(fabric: Fabric, model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load weights into the model."""
    if is_sharded(fabric):
        state: Any = weights
        dcp_state.set_model_state_dict(model, state, options=_PARTIAL)
    else:
        checkpoint.load_weights(model, weights)


def restore_checkpoint(
    fabric: Fabric, model: nn.Module, optimizers: Sequence[Optimizer], saved: checkpoint.Checkpoint
) -> None:
    """Load the saved state into the model and its optimizers."""
    load_full_weights(fabric, model, saved.model)
    if is_sharded(fabric):
        for optimizer, state in zip(optimizers, saved.optimizers, strict=True):
            dcp_state.set_optimizer_state_dict(model, unwrap_optimizer(optimizer), state, options=_PARTIAL)
        return
    for optimizer, state in zip(optimizers, saved.optimizers, strict=True):
        unwrap_optimizer(optimizer).load_state_dict(state)
