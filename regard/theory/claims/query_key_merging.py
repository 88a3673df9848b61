"""Claim about merging W_Q and W_K into one matrix: what it equals, what it costs, and what cannot be merged."""

from __future__ import annotations

import math

import torch

from regard.errors import UserError
from regard.inspect import record
from regard.layers.merge_qk import merge_qk
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.theory.claim import CheckResult, Claim
from regard.theory.claims.check_helpers import TOLERANCE, build_layer, max_difference, randn, softmax_rows
from regard.theory.claims.projections import TOPIC, projection_matrices


def check_merged(seed: int) -> CheckResult:
    """Compare (1/√I) W_Qᵀ W_K per head with the factored layer, in weights and in number of parameters."""
    dim, heads = 24, 3
    factored, x = build_layer(dim, heads, seed=seed), randn(2, 11, dim, seed=seed + 1)
    merged = merge_qk(factored)
    with torch.no_grad(), record(factored) as factored_recording, record(merged) as merged_recording:
        output, merged_output = factored(x), merged(x)
        w_q, w_k, _, bias = projection_matrices(factored)
        width = w_q.shape[1]
        product = torch.einsum("hud,hue->hde", w_q, w_k) / math.sqrt(width)
        content = torch.einsum("bqd,hde,bke->bhqk", x, product, x)
        wrong_index = torch.einsum("bqd,hde,bqe->bhq", x, product, x)[..., None].expand_as(content)
        b_q = bias.split(factored.mechanism.qkv.widths)[0].unflatten(0, (heads, -1))  # type: ignore[union-attr]
        key_only = torch.einsum("hu,hud,bkd->bhk", b_q, w_k, x)[:, :, None] / math.sqrt(width)
        ranks = torch.linalg.matrix_rank(product).tolist()
        full_ranks = torch.linalg.matrix_rank(randn(heads, dim, dim, seed=seed + 2)).tolist()
    weights, merged_weights = factored_recording["attend"], merged_recording["attend"]
    try:
        merge_qk(build_layer(dim, heads, seed=seed, positions="rotary"))
        rotary_raises = False
    except UserError:
        rotary_raises = True
    per_head = {key_width: (dim * dim, 2 * key_width * dim) for key_width in (dim // 4, dim // 2, dim)}
    per_layer = {num_heads: (num_heads * dim * dim, 2 * dim * dim) for num_heads in (1, 2, 4)}
    value_and_output = 2 * dim * dim
    counts = {
        num_heads: tuple(
            sum(p.numel() for p in MultiHeadAttention(dim, num_heads, name, bias=False).parameters()) - value_and_output
            for name in ("merged-qk", "dot")
        )
        for num_heads in (1, 2, 4)
    }
    figures = {
        "output, merged against factored": max_difference(output, merged_output),
        "weights, merged against factored": max_difference(merged_weights, weights),
        "W with the key-only term against the layer": max_difference(softmax_rows(content + key_only), weights),
        "W without the key-only term": max_difference(softmax_rows(content), weights),
        "parameters per head by I (merged, factored)": per_head,
        "parameters per layer by K (merged, factored)": per_layer,
        "parameters counted per layer by K": counts,
        "rank of W_Qᵀ W_K": ranks,
        "rank of an unconstrained W": full_ranks,
        "rotary positions with one W, smallest relative error": rotary_residual(seed),
    }
    return CheckResult(
        figures,
        {
            "identical attention": figures["output, merged against factored"] < TOLERANCE
            and figures["weights, merged against factored"] < TOLERANCE,
            "a query bias adds a key-only term": figures["W with the key-only term against the layer"] < TOLERANCE
            and figures["W without the key-only term"] > 1e-4,
            "equal parameters at I = J/2": [a == b for a, b in per_head.values()] == [False, True, False],
            "equal parameters at K = 2": [a == b for a, b in per_layer.values()] == [False, True, False],
            "counted parameters equal the formula": counts == per_layer,
            "merged is a superset": max(ranks) <= width < min(full_ranks),
            "rotary positions cannot be merged": rotary_raises
            and figures["rotary positions with one W, smallest relative error"] > 0.1,
        },
        {"weights, difference with x[t1] on both sides": max_difference(softmax_rows(wrong_index), weights)},
    )


def rotary_residual(seed: int) -> float:
    """Return the relative least-squares error of one matrix that reproduces scores with rotary positions."""
    n, dim = 24, 8
    layer = build_layer(dim, 1, seed=seed, positions="rotary", bias=False)
    features, scores = [], []
    for i in range(6):
        x = randn(1, n, dim, seed=seed + 10 + i)
        with torch.no_grad():
            query, (key, _) = layer.mechanism.project_query(x, range(n)), layer.mechanism.project_kv(x, range(n))
            scores.append((query @ key.mT).flatten())
        features.append(torch.einsum("qd,ke->qkde", x[0], x[0]).flatten(0, 1).flatten(1))
    a, y = torch.cat(features), torch.cat(scores)
    solution = torch.linalg.lstsq(a, y[:, None]).solution
    return float((a @ solution - y[:, None]).norm() / y.norm())


CLAIMS = [
    Claim(
        "merged",
        TOPIC,
        "exact",
        "One matrix per head in place of W_Q and W_K gives identical attention, with J² parameters per head against "
        "2IJ (equal at I = J/2) and KJ² per layer against 2J² (equal at K = 2). It is more expressive, since its rank "
        "is not limited. A query bias adds a key-only term; rotary positions cannot be merged.",
        "W = W_Qᵀ W_K / sqrt(I);  s(t1, t2) = x[t1]ᵀ W x[t2] + u·x[t2]",
        check_merged,
        "writing t1 for t2 in the product",
    ),
]
