"""Random states of the processes, and deterministic sums: what a resumed run needs to end with the same bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from torch import Tensor


def get_rng_states(fabric: Fabric) -> dict[str, Tensor]:
    """The random states of this process, by device."""
    states = {"cpu": torch.get_rng_state()}
    if fabric.device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(fabric.device)
    return states


def set_rng_states(fabric: Fabric, states: dict[str, Tensor]) -> None:
    """Set the random states of this process."""
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and fabric.device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], fabric.device)


def gather_rng_states(fabric: Fabric) -> list[dict[str, Tensor]]:
    """The random states of all processes."""
    local = get_rng_states(fabric)
    if fabric.world_size == 1:
        return [local]
    gathered: list[dict[str, Tensor]] = [{} for _ in range(fabric.world_size)]
    for name, state in local.items():
        sent = state.to(fabric.device)
        received = [torch.empty_like(sent) for _ in gathered]
        dist.all_gather(received, sent)
        for states, tensor in zip(gathered, received, strict=True):
            states[name] = tensor.cpu()
    return gathered


@contextlib.contextmanager
def deterministic_algorithms(fabric: Fabric) -> Iterator[None]:
    """On a CPU, use deterministic algorithms. Without them the backward pass of x[indices] adds up in any order.

    It is not slower there. On a GPU it is, and the user may switch it on.
    """
    if fabric.device.type != "cpu":
        yield
        return
    previous = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    previous_fill = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    memory.fill_uninitialized_memory = False  # this part would be slower
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(previous[0], warn_only=previous[1])
        memory.fill_uninitialized_memory = previous_fill
