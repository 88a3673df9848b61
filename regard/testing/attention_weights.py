"""What weights must be: rows of one over the allowed keys, exactly zero elsewhere, nothing where nothing is allowed."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from regard.attention.masks import Mask
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.testing.mechanism_case import BATCH, HEADS, Case, same, watch


def pattern(*shape: int, seed: int = 5) -> Tensor:
    """Any pattern of True and False, with a True in each row."""
    allowed = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.6
    allowed[..., 0] |= ~allowed.any(-1)
    return allowed


def masks(n: int, k: int) -> Iterator[tuple[str, Mask, Tensor]]:
    """Name, mask, and by hand which pairs it allows, (b, h, q, k)."""
    whole = torch.ones(BATCH, HEADS, n, k, dtype=torch.bool)
    keys = torch.ones(BATCH, k, dtype=torch.bool)
    keys[1, k - 4 :] = False
    yield "keys", Mask(key_mask=keys), whole & keys[:, None, None, :]
    pairs = pattern(BATCH, 1, n, k)
    yield "pairs", Mask(attn_mask=pairs), whole & pairs
    each = pattern(BATCH, HEADS, n, k, seed=6)
    yield "pairs of each head", Mask(attn_mask=each), each
    past = torch.tensor([[j <= i for j in range(k)] for i in range(n)])
    yield "causal", Mask(causal=True), whole & past
    yield "all at once", Mask(keys, pairs, True), whole & keys[:, None, None, :] & pairs & past


def settings(case: Case) -> Iterator[tuple[str, MultiHeadAttention, Tensor, Tensor | None, int]]:
    """Regarding itself, and regarding another memory where the mechanism can."""
    layer = case.layer()
    yield "itself", layer, case.x(), None, case.n
    if case.cls.supports_cross_attention:
        yield "another memory", layer, case.x(), case.memory(), case.m


def weigh(layer: MultiHeadAttention, x: Tensor, memory: Tensor | None, mask: Mask | None) -> tuple[Tensor, Tensor]:
    """The weights and the context of one call."""
    with watch(layer) as seen, torch.no_grad():
        layer(x, memory, mask=mask)
        one = seen[0]
        return one.scores.weights(one.mask), one.context


def assert_rows_sum_to_one(case: Case) -> None:
    """Each row sums to one over the allowed keys that the mechanism reaches at all, and no weight is negative."""
    for where, layer, x, memory, k in settings(case):
        free, _ = weigh(layer, x, memory, None)
        assert free.shape == (BATCH, HEADS, case.n, k), (
            f"weights over {where} have shape {tuple(free.shape)}, wanted (b, h, q, k) = {(BATCH, HEADS, case.n, k)}"
        )
        same(free.sum(-1), torch.ones_like(free.sum(-1)), f"rows of weights over {where} do not sum to one, no mask")
        for name, mask, allowed in masks(case.n, k):
            weights, _ = weigh(layer, x, memory, mask)
            assert bool((weights >= 0).all()), f"negative or NaN weights over {where}, mask {name}"
            wanted = ((free > 0) & allowed).any(-1).to(weights.dtype)
            same(weights.sum(-1), wanted, f"rows of weights over {where} do not sum to one, mask {name}")


def assert_forbidden_weigh_nothing(case: Case) -> None:
    """Forbidden keys weigh exactly zero, and the others share what is left as they did before."""
    for where, layer, x, memory, k in settings(case):
        free, _ = weigh(layer, x, memory, None)
        for name, mask, allowed in masks(case.n, k):
            weights, _ = weigh(layer, x, memory, mask)
            leak = float(weights[~allowed].abs().max())
            assert leak == 0.0, f"forbidden keys over {where} weigh up to {leak:.2e}, mask {name}"
            kept = free * allowed
            total = kept.sum(-1, keepdim=True)
            wanted = torch.where(total > 0, kept / total, 0.0)
            if memory is None and mask.key_mask is not None:  # what a padded place asks does not matter
                real = mask.key_mask[:, None, :, None]
                weights, wanted = weights * real, wanted * real
            same(weights, wanted, f"a mask ({name}) over {where} changes the odds among allowed keys")


def assert_nowhere_reads_zero(case: Case) -> None:
    """A query that is allowed nowhere reads exactly zero, and no NaN comes back in the gradients."""
    for where, _, x, memory, k in settings(case):
        layer = case.layer()
        pairs = torch.ones(BATCH, 1, case.n, k, dtype=torch.bool)
        pairs[0, :, 4] = False
        keys = torch.ones(BATCH, k, dtype=torch.bool)
        keys[1] = False
        for name, mask, row in (
            ("pairs", Mask(attn_mask=pairs), (0, 4)),
            ("keys", Mask(key_mask=keys), (1, slice(None))),
        ):
            layer.zero_grad()
            given = x.clone().requires_grad_()
            with watch(layer) as seen:
                out = layer(given, memory, mask=mask)
            context = seen[0].context.transpose(1, 2)[row]
            assert not bool(context.isnan().any()), f"a query allowed nowhere over {where} ({name}) reads NaN"
            assert bool((context == 0).all()), f"a query allowed nowhere over {where} ({name}) does not read zero"
            weights = seen[0].scores.weights(seen[0].mask).transpose(1, 2)[row]
            assert bool((weights == 0).all()), (
                f"a query allowed nowhere over {where} ({name}) has weights that are not 0"
            )
            assert bool(out.isfinite().all()), f"NaN in the output over {where} ({name})"
            out.square().sum().backward()
            for who, p in [("its input", given), *layer.named_parameters()]:
                fine = p.grad is None or bool(p.grad.isfinite().all())
                assert fine, f"a query allowed nowhere over {where} ({name}) gives NaN gradients to {who}"


def assert_formula(case: Case) -> None:
    """The weights are softmax of the formula, where there is one."""
    if case.formula is None:
        return
    for where, layer, x, memory, k in settings(case):
        position_ids, k_pos = range(case.n), range(k)
        with torch.no_grad(), watch(layer) as seen:
            layer(x, memory)
            query = layer.mechanism.project_query(x, position_ids)
            keys, _ = layer.mechanism.project_kv(x if memory is None else memory, k_pos)
            raw = case.formula(layer.mechanism, query, keys, seen[0].scores.qk_positions).exp()
        same(seen[0].scores.weights(), raw / raw.sum(-1, keepdim=True), f"weights over {where} are not the formula's")


CHECKS = {
    "rows sum to one": assert_rows_sum_to_one,
    "forbidden weigh nothing": assert_forbidden_weigh_nothing,
    "nowhere reads zero": assert_nowhere_reads_zero,
    "formula": assert_formula,
}
