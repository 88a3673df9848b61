"""Checks of attention weights: rows sum to one over the allowed keys, masked keys get zero, masked rows are zero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.layers.multi_head_attention import MultiHeadAttention
from regard.testing.mechanism_case import BATCH, HEADS, Case, assert_close, capture_calls, padding_mask

MaskArguments = dict[str, Any]
"""Mask arguments of `MultiHeadAttention.forward`."""


def random_pattern(*shape: int, seed: int = 5) -> Tensor:
    """A random bool tensor with at least one True in each row."""
    allowed = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.6
    allowed[..., 0] |= ~allowed.any(-1)
    return allowed


def masks(n: int, k: int) -> Iterator[tuple[str, MaskArguments, Tensor]]:
    """Name, mask arguments, and the pairs that they allow, (b, h, q, k), computed independently."""
    all_pairs = torch.ones(BATCH, HEADS, n, k, dtype=torch.bool)
    keys = padding_mask(k, 4)
    yield "key_mask", {"key_mask": keys}, all_pairs & keys[:, None, None, :]
    pairs = random_pattern(BATCH, 1, n, k)
    yield "attn_mask (b, q, k)", {"attn_mask": pairs[:, 0]}, all_pairs & pairs
    yield "attn_mask (q, k)", {"attn_mask": pairs[0, 0]}, all_pairs & pairs[0]
    per_head = random_pattern(BATCH, HEADS, n, k, seed=6)
    yield "attn_mask (b, h, q, k)", {"attn_mask": per_head}, per_head
    past = torch.tensor([[j <= i for j in range(k)] for i in range(n)])
    yield "causal", {"causal": True}, all_pairs & past
    combined = all_pairs & keys[:, None, None, :] & pairs & past
    yield "all masks", {"key_mask": keys, "attn_mask": pairs, "causal": True}, combined


def settings(case: Case) -> Iterator[tuple[str, MultiHeadAttention, Tensor, Tensor | None, int]]:
    """Self-attention, and cross-attention if the mechanism supports it: name, layer, x, context, number of keys."""
    layer = case.layer()
    yield "self-attention", layer, case.x(), None, case.n
    if case.crosses:
        yield "cross-attention", layer, case.x(), case.context(), case.m


def attention_weights(layer: MultiHeadAttention, x: Tensor, context: Tensor | None, mask: MaskArguments) -> Tensor:
    """The weights (b, h, q, k) of one call."""
    with capture_calls(layer) as calls, torch.no_grad():
        layer(x, context, **mask)
        return calls[0].scores.weights(calls[0].mask)


def assert_rows_sum_to_one(case: Case) -> None:
    """Each row sums to one over the allowed keys within the mechanism's window, and no weight is negative."""
    for setting, layer, x, context, k in settings(case):
        unmasked = attention_weights(layer, x, context, {})
        expected_shape = (BATCH, HEADS, case.n, k)
        assert unmasked.shape == expected_shape, (
            f"weights of {setting} have shape {tuple(unmasked.shape)}, expected (b, h, q, k) = {expected_shape}"
        )
        sums = unmasked.sum(-1)
        assert_close(sums, torch.ones_like(sums), f"rows of weights do not sum to one in {setting} without a mask")
        for name, mask, allowed in masks(case.n, k):
            weights = attention_weights(layer, x, context, mask)
            assert bool((weights >= 0).all()), f"negative or NaN weights in {setting} with {name}"
            expected = ((unmasked > 0) & allowed).any(-1).to(weights.dtype)
            assert_close(weights.sum(-1), expected, f"rows of weights do not sum to one in {setting} with {name}")


def assert_masked_keys_get_zero(case: Case) -> None:
    """Masked keys get exactly zero. The weights of the others are those without a mask, normalized again."""
    for setting, layer, x, context, k in settings(case):
        unmasked = attention_weights(layer, x, context, {})
        for name, mask, allowed in masks(case.n, k):
            weights = attention_weights(layer, x, context, mask)
            leak = float(weights[~allowed].abs().max())
            assert leak == 0.0, f"masked keys have weights up to {leak:.2e} in {setting} with {name}"
            rest = unmasked * allowed
            total = rest.sum(-1, keepdim=True)
            expected = torch.where(total > 0, rest / total, 0.0)
            if context is None and "key_mask" in mask:  # queries that are padding do not matter
                queries = mask["key_mask"][:, None, :, None]
                weights, expected = weights * queries, expected * queries
            assert_close(weights, expected, f"{name} changes the ratio of weights of allowed keys in {setting}")


def assert_masked_rows_are_zero(case: Case) -> None:
    """A query without allowed keys gets an output of exactly zero, and no NaN in the gradients."""
    for setting, _, x, context, k in settings(case):
        layer = case.layer()
        pairs = torch.ones(BATCH, case.n, k, dtype=torch.bool)
        pairs[0, 4] = False
        for name, mask, row in (
            ("attn_mask", {"attn_mask": pairs}, (0, 4)),
            ("key_mask", {"key_mask": padding_mask(k, k)}, (1, slice(None))),
        ):
            where = f"for a query without allowed keys ({name}) in {setting}"
            layer.zero_grad()
            inputs = x.clone().requires_grad_()
            with capture_calls(layer) as calls:
                out = layer(inputs, context, **mask)
            output = calls[0].output.transpose(1, 2)[row]
            assert not bool(output.isnan().any()), f"the output is NaN {where}"
            assert bool((output == 0).all()), f"the output is not zero {where}"
            weights = calls[0].scores.weights(calls[0].mask).transpose(1, 2)[row]
            assert bool((weights == 0).all()), f"the weights are not zero {where}"
            assert bool(out.isfinite().all()), f"the layer's output is not finite {where}"
            out.square().sum().backward()
            for name, p in [("the input", inputs), *layer.named_parameters()]:
                finite = p.grad is None or bool(p.grad.isfinite().all())
                assert finite, f"the gradient of {name} is NaN {where}"


def assert_formula(case: Case) -> None:
    """The weights are the softmax of the reference formula, if there is one."""
    if case.formula is None:
        return
    for setting, layer, x, context, k in settings(case):
        with torch.no_grad(), capture_calls(layer) as calls:
            layer(x, context)
            query = layer.mechanism.project_query(x, range(case.n))
            keys, _ = layer.mechanism.project_kv(x if context is None else context, range(k))
            exp = case.formula(layer.mechanism, query, keys, calls[0].scores.qk_positions).exp()
        expected = exp / exp.sum(-1, keepdim=True)
        assert_close(calls[0].scores.weights(), expected, f"weights of {setting} differ from the reference formula")


CHECKS = {
    "rows sum to one": assert_rows_sum_to_one,
    "masked keys get zero": assert_masked_keys_get_zero,
    "masked rows are zero": assert_masked_rows_are_zero,
    "formula": assert_formula,
}
