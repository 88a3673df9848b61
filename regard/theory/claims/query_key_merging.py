"""One matrix of query and key in place of two: what it equals, what it costs, what cannot be merged."""

from __future__ import annotations

import math

import torch

from regard.errors import UserError
from regard.inspect import record
from regard.layers.merge_qk import merge
from regard.layers.multi_head_attention import MultiHead
from regard.theory.claim import Claim, Found
from regard.theory.claims.check_helpers import gap, layer, noise, weigh
from regard.theory.claims.projections import TIGHT, TOPIC, matrices


def merged(seed: int) -> Found:
    """(1/√I) W_Qᵀ W_K for each head; sizes where both forms have as many parameters; what cannot be merged."""
    dim, heads = 24, 3
    old, x = layer(dim, heads, seed=seed), noise(2, 11, dim, seed=seed + 1)
    new = merge(old)
    with torch.no_grad(), record(old) as before, record(new) as after:
        out, again = old(x), new(x)
        q, k, _, bias = matrices(old)
        width = q.shape[1]
        both = torch.einsum("hud,hue->hde", q, k) / math.sqrt(width)
        content = torch.einsum("bqd,hde,bke->bhqk", x, both, x)
        slip = torch.einsum("bqd,hde,bqe->bhq", x, both, x)[..., None].expand_as(content)
        b_q = bias.split(old.mechanism.qkv.widths)[0].unflatten(0, (heads, -1))  # type: ignore[union-attr]
        key_only = torch.einsum("hu,hud,bkd->bhk", b_q, k, x)[:, :, None] / math.sqrt(width)
        ranks = torch.linalg.matrix_rank(both).tolist()
        full = torch.linalg.matrix_rank(noise(heads, dim, dim, seed=seed + 2)).tolist()
    weights = before["attend"]
    try:
        merge(layer(dim, heads, seed=seed, positions="rotary"))
        refused = False
    except UserError:
        refused = True
    per_head = {i: (dim * dim, 2 * i * dim) for i in (dim // 4, dim // 2, dim)}
    per_layer = {heads_: (heads_ * dim * dim, 2 * dim * dim) for heads_ in (1, 2, 4)}
    counted = {}
    for one in (1, 2, 4):
        factored, joined = (MultiHead(dim, one, name, bias=False) for name in ("dot", "merged"))
        shared = 2 * dim * dim  # values and output
        counted[one] = tuple(sum(p.numel() for p in m.parameters()) - shared for m in (joined, factored))
    figures = {
        "output, merged against factored": gap(out, again),
        "weights, merged against factored": gap(after["attend"], weights),
        "W with the key-only term against the layer": gap(weigh(content + key_only), weights),
        "W without the key-only term": gap(weigh(content), weights),
        "parameters a head by I (merged, factored)": per_head,
        "parameters a layer by K (merged, factored)": per_layer,
        "counted a layer by K": counted,
        "rank of W_Qᵀ W_K": ranks,
        "rank it could have": full,
        "rotary on one W, smallest error": rotary_residual(seed),
    }
    return Found(
        figures,
        {
            "identical attention": gap(out, again) < TIGHT and gap(after["attend"], weights) < TIGHT,
            "a query bias leaves a key-only term": figures["W with the key-only term against the layer"] < TIGHT
            and figures["W without the key-only term"] > 1e-4,
            "equal at I = J/2": [a == b for a, b in per_head.values()] == [False, True, False],
            "equal at K = 2": [a == b for a, b in per_layer.values()] == [False, True, False],
            "counted as said": counted == per_layer,
            "a superset": max(ranks) <= width < min(full),
            "rotary positions cannot be merged": refused and figures["rotary on one W, smallest error"] > 0.1,
        },
        {"weights with x at t1 written on both sides": gap(weigh(slip), weights)},
    )


def rotary_residual(seed: int) -> float:
    """How badly the best single matrix reproduces scores with rotary positions: relative error of least squares."""
    n, dim = 24, 8
    made = layer(dim, 1, seed=seed, positions="rotary", bias=False)
    features, scores = [], []
    for number in range(6):
        x = noise(1, n, dim, seed=seed + 10 + number)
        with torch.no_grad():
            m = made.mechanism
            q, (k, _) = m.query(x, range(n)), m.remember(x, range(n))
            scores.append((q @ k.mT).flatten())
        features.append(torch.einsum("qd,ke->qkde", x[0], x[0]).flatten(0, 1).flatten(1))
    a, y = torch.cat(features), torch.cat(scores)
    best = torch.linalg.lstsq(a, y[:, None]).solution
    return float((a @ best - y[:, None]).norm() / y.norm())


CLAIMS = [
    Claim(
        "merged",
        TOPIC,
        "exact",
        "One matrix for each head in place of W_Q and W_K gives identical attention, with J² parameters a head against "
        "2IJ (equal at I = J/2) and KJ² a layer against 2J² (equal at K = 2). It can say more, its rank being free. A "
        "query bias leaves a key-only term to carry; rotary positions cannot be merged.",
        "W = W_Qᵀ W_K / sqrt(I);  s(t1, t2) = x[t1]ᵀ W x[t2] + u·x[t2]",
        merged,
        "writing t1 for t2 in the product",
    ),
]
