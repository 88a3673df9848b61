"""Checks of the KV cache: step by step equals one pass, and a cached context equals the context."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.kv_cache import KVCache
from regard.errors import UserError
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.testing.mechanism_case import OTHER_DIM, Case, assert_close, assert_identical, padding_mask


def run_steps(
    layer: MultiHeadAttention, x: Tensor, chunks: tuple[int, ...], cache: KVCache | None = None
) -> tuple[Tensor, KVCache]:
    """Run x through `step` in chunks of these sizes."""
    outs = []
    for chunk in x.split(chunks, 1):
        out, cache = layer.step(chunk, cache)
        outs.append(out)
    assert cache is not None
    return torch.cat(outs, 1), cache


def assert_steps(case: Case) -> None:
    """Steps of one token or several, with and without gradients, equal one causal pass."""
    layer, x = case.layer(), case.x()
    expected = layer(x, causal=True)
    uneven = (1, 3, 2, case.n - 6)
    for chunks in ((1,) * case.n, uneven, (4, case.n - 4), (case.n,)):
        with torch.no_grad():
            assert_close(run_steps(layer, x, chunks)[0], expected, f"steps of {chunks} differ from one pass")
    inputs = x.clone().requires_grad_()
    out, cache = run_steps(layer, inputs, uneven)
    assert_close(out, expected, "steps with gradients differ from one pass")
    (grad,) = torch.autograd.grad(out.square().sum(), inputs)
    inputs = x.clone().requires_grad_()
    (expected_grad,) = torch.autograd.grad(layer(inputs, causal=True).square().sum(), inputs)
    assert_close(grad, expected_grad, "gradients of steps differ from those of one pass")
    limit, past = layer.mechanism.max_lookback, len(cache) - uneven[-1]
    assert limit is None or past <= limit, f"max_lookback is {limit}, but {past} keys are cached for the next step"


def assert_cache_branches(case: Case) -> None:
    """Two continuations of one cache do not change each other; rows of a cache can be selected, as in beam search."""
    layer, x = case.layer(), case.x()
    fork, rest = 5, case.n - 5
    other = torch.cat((x[:, :fork], case.x(seed=9)[:, fork:]), 1)
    with torch.no_grad():
        _, cache = run_steps(layer, x[:, :fork], (2, 3))
        first, second = cache, cache
        outs, other_outs = [], []
        for i in range(fork, case.n):  # alternating, so that a shared buffer would be overwritten
            out, first = layer.step(x[:, i : i + 1], first)
            outs.append(out)
            out, second = layer.step(other[:, i : i + 1], second)
            other_outs.append(out)
        expected = layer(x, causal=True)[:, fork:]
        assert_close(torch.cat(outs, 1), expected, "a continuation is changed by another one")
        expected = layer(other, causal=True)[:, fork:]
        assert_close(torch.cat(other_outs, 1), expected, "the second continuation is changed by the first")
        rows = torch.tensor([1, 1, 0])
        out, _ = run_steps(layer, x[rows][:, fork:], (1,) * rest, cache.select(rows))
        assert_close(out, layer(x[rows], causal=True)[:, fork:], "selected rows of a cache continue differently")


def assert_cached_context(case: Case) -> None:
    """A context from `project_kv` gives the same as its tensor, any number of times.

    A mechanism without cross-attention raises UserError.
    """
    layer, x = case.layer(), case.x()
    if not case.crosses:
        try:
            layer(x, case.context())
        except UserError:
            return
        raise AssertionError("supports_cross_attention is False, but attention to a context raises no error")
    for width in (case.dim, OTHER_DIM):
        layer = case.layer(context_dim=None if width == case.dim else width)
        context = case.context(width=width)
        with torch.no_grad():
            for key_mask in (None, padding_mask(case.m, case.m - 8, row=0)):
                expected = layer(x, context, key_mask=key_mask)
                cache = layer.project_kv(context, key_mask=key_mask)
                for call in ("first", "second"):
                    assert_identical(layer(x, cache), expected, f"the {call} use of a cached context differs")
                out = layer(x[:, 3:4], cache, position_ids=range(3, 4))
                assert_close(out, expected[:, 3:4], "a single query differs from the same query among others")


CHECKS = {
    "steps": assert_steps,
    "cache branches": assert_cache_branches,
    "cached context": assert_cached_context,
}
