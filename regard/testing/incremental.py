"""Step by step equals all at once; a memory is read once and regarded many times."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.kv_cache import KVCache
from regard.errors import UserError
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.testing.mechanism_case import BATCH, OTHER, Case, identical, same


def walk(
    layer: MultiHeadAttention, x: Tensor, chunks: tuple[int, ...], past: KVCache | None = None
) -> tuple[Tensor, KVCache]:
    """x in these chunks, one after the other."""
    outs = []
    for part in x.split(chunks, 1):
        out, past = layer.step(part, past)
        outs.append(out)
    assert past is not None
    return torch.cat(outs, 1), past


def assert_steps(case: Case) -> None:
    """One place at a time, or several, with and without gradients, is the same as a causal pass over the whole."""
    layer, x = case.layer(), case.x()
    whole = layer(x, causal=True)
    uneven = (1, 3, 2, case.n - 6)
    for chunks in ((1,) * case.n, uneven, (4, case.n - 4), (case.n,)):
        with torch.no_grad():
            same(walk(layer, x, chunks)[0], whole, f"steps of {chunks} differ from all at once")
    given = x.clone().requires_grad_()
    out, past = walk(layer, given, uneven)
    same(out, whole, "steps with gradients differ from all at once")
    (grad,) = torch.autograd.grad(out.square().sum(), given)
    again = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(layer(again, causal=True).square().sum(), again)
    same(grad, wanted, "gradients of steps differ from those of all at once")
    reach = layer.mechanism.max_lookback
    kept = len(past) - uneven[-1]
    assert reach is None or kept <= reach, f"reach is {reach}, yet {kept} keys are kept for the next step"


def assert_branches(case: Case) -> None:
    """Two continuations of one memory do not disturb each other, nor it; and rows can be chosen, as beams are."""
    layer, x = case.layer(), case.x()
    fork, rest = 5, case.n - 5
    other = torch.cat((x[:, :fork], case.x(seed=9)[:, fork:]), 1)
    with torch.no_grad():
        _, past = walk(layer, x[:, :fork], (2, 3))
        one, two = past, past
        outs, others = [], []
        for i in range(fork, case.n):  # by turns, so that each would write over what the other wrote
            out, one = layer.step(x[:, i : i + 1], one)
            outs.append(out)
            out, two = layer.step(other[:, i : i + 1], two)
            others.append(out)
        same(torch.cat(outs, 1), layer(x, causal=True)[:, fork:], "a continuation is disturbed by another one")
        same(torch.cat(others, 1), layer(other, causal=True)[:, fork:], "the second continuation is disturbed")
        rows = torch.tensor([1, 1, 0])
        picked = walk(layer, x[rows][:, fork:], (1,) * rest, past.select(rows))[0]
        same(picked, layer(x[rows], causal=True)[:, fork:], "rows chosen from a memory do not go on as they should")


def assert_memory_is_read_once(case: Case) -> None:
    """A memory read once gives what the tensor gives, as often as it is asked; where a mechanism cannot regard another
    sequence, it says so."""
    layer, x = case.layer(), case.x()
    if not case.cls.supports_cross_attention:
        try:
            layer(x, case.memory())
        except UserError:
            return
        raise AssertionError("the mechanism says that it cannot regard another memory, and yet it does, silently")
    keys = torch.ones(BATCH, case.m, dtype=torch.bool)
    keys[0, 8:] = False
    for width in (case.dim, OTHER):
        layer = case.layer(context_dim=None if width == case.dim else width)
        memory = case.memory(width=width)
        with torch.no_grad():
            for mask in (None, keys):
                out = layer(x, memory, mask=mask)
                read = layer.project_kv(memory, mask=mask)
                for time in ("first", "second"):
                    identical(layer(x, read), out, f"a memory read once ({time} time) differs from its tensor")
                same(
                    layer(x[:, 3:4], read, position_ids=range(3, 4)),
                    out[:, 3:4],
                    "a query alone differs from among others",
                )


CHECKS = {
    "steps": assert_steps,
    "branches": assert_branches,
    "memory is read once": assert_memory_is_read_once,
}
