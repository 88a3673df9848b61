"""Seconds an epoch and memory on this machine, found by trying some steps of training on texts by chance.

The probe does what a step of training does: forward, cross-entropy, backward, clipping, AdamW. Memory is what tensors
hold at once: weights, gradients and two moments, and what is kept between the passes.
"""

from __future__ import annotations

import copy
import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.costing.card import Kept, call, tensors
from regard.training import machine

WARM, LEAST, MOST = 2, 3, 30
SECONDS = 4.0


def loss_of(out: Any, ids: Tensor) -> Tensor:
    """A loss of the shape that training has: words at every place, or a class for each text."""
    logits = tensors(out)[0]
    if logits.dim() == 3:
        return F.cross_entropy(logits.flatten(0, 1), ids[:, : logits.shape[1]].flatten() % logits.shape[-1])
    target = ids.sum(1) % logits.shape[-1]  # nothing that is soon learnt
    return F.cross_entropy(logits, target) + sum((t.sum() for t in tensors(out)[1:]), logits.new_zeros(()))


def predict(module: nn.Module, n: int, batch: int, tokens: int, *, seconds: float = SECONDS) -> dict[str, Any]:
    """For `batch` texts of n tokens a step and so many tokens an epoch. The module itself is left as it was."""
    model = copy.deepcopy(module).train()
    args = tuple(t.detach() for t in call(model, n, batch=batch)[0])
    ids = args[-1] if not args[0].is_floating_point() else None
    if len(args) == 3:
        ids = args[0]
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    params = [p for p in model.parameters() if p.requires_grad]
    kept = 0

    def step(count: bool = False) -> None:
        nonlocal kept
        if count:
            with Kept(model, [t for t in args if isinstance(t, Tensor)]) as seen:
                loss = _loss(model, args, ids)
            kept = seen.bytes
        else:
            loss = _loss(model, args, ids)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    times: list[float] = []
    with machine.prepared():  # as training is
        step(count=True)
        for _ in range(WARM - 1):
            step()
        while len(times) < MOST and (len(times) < LEAST or sum(times) < seconds):
            begun = time.perf_counter()
            step()
            times.append(time.perf_counter() - begun)
    each = sorted(times)[len(times) // 2]
    size = sum(p.numel() * p.element_size() for p in params)
    return {
        "batch": batch,
        "tokens": tokens,
        "steps": -(-tokens // (batch * n)),
        "seconds_step": each,
        "seconds_epoch": each * tokens / (batch * n),
        "memory": 4 * size + kept,
        "memory_weights": 4 * size,
        "memory_kept": kept,
    }


def _loss(model: nn.Module, args: tuple, ids: Tensor | None) -> Tensor:
    out = model(*args)
    if ids is None:
        return tensors(out)[0].square().mean()
    return loss_of(out, ids)
