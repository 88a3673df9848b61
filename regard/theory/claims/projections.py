"""Claims about queries, keys and values: three projections, one scale, heads, and the layer without output matrix."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.attention.mechanisms.mechanism import split_heads
from regard.inspect import record
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.theory.claim import CheckResult, Claim, Plot
from regard.theory.claims.check_helpers import (
    TOLERANCE,
    build_layer,
    entropy,
    max_difference,
    randn,
    seeded,
    self_attention_scores,
    softmax_rows,
)
from regard.theory.cost import Trace

TOPIC = "projections"


def projection_matrices(layer: MultiHeadAttention) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return W_Q, W_K (h, d_k, dim), W_V (h, d_v, dim) and all biases (h * (2 d_k + d_v)) of a packed layer."""
    packed, heads = layer.mechanism.qkv, layer.mechanism.heads  # type: ignore[union-attr]
    parts = packed.weight.split(packed.widths)  # type: ignore[union-attr]
    w_q, w_k, w_v = (part.unflatten(0, (heads, -1)) for part in parts)
    return w_q, w_k, w_v, packed.bias  # type: ignore[union-attr,return-value]


def reference_attention(layer: MultiHeadAttention, x: Tensor, scalings: float = 1.0) -> tuple[Tensor, Tensor]:
    """Compute self-attention from the layer's matrices with einsum.

    Args:
        x: (b, n, dim).
        scalings: How many times the scores are divided by sqrt(d_k).

    Returns:
        Weights (b, h, q, k) and output (b, n, dim).
    """
    w_q, w_k, w_v, bias = projection_matrices(layer)
    d_k = w_q.shape[1]
    b_q, b_k, b_v = (b.unflatten(0, (w_q.shape[0], -1)) for b in bias.split(layer.mechanism.qkv.widths))  # type: ignore[union-attr]
    queries = torch.einsum("hud,bnd->bhnu", w_q, x) + b_q[:, None]
    keys = torch.einsum("hud,bnd->bhnu", w_k, x) + b_k[:, None]
    values = torch.einsum("hud,bnd->bhnu", w_v, x) + b_v[:, None]
    weights = softmax_rows(torch.einsum("bhqu,bhku->bhqk", queries, keys) / math.sqrt(d_k) ** scalings)
    context = torch.einsum("bhqk,bhku->bqhu", weights, values).flatten(2)
    return weights, layer.out(context)


def check_three_projections(seed: int) -> CheckResult:
    layer, x = build_layer(30, 3, seed=seed), randn(2, 11, 30, seed=seed + 1)
    with torch.no_grad(), record(layer) as recording:
        output = layer(x)
        expected_weights, expected_output = reference_attention(layer, x)
        w_q, w_k, w_v, _ = projection_matrices(layer)
        distance = min(float((a - b).norm() / a.norm()) for a, b in ((w_q, w_k), (w_q, w_v), (w_k, w_v)))
        scores = torch.einsum("hud,bqd,hue,bke->bhqk", w_q, x, w_k, x)
        tied_scores = torch.einsum("hud,bqd,hue,bke->bhqk", w_q, x, w_q, x)
    asymmetry, tied_asymmetry = (float((s - s.mT).norm() / s.norm()) for s in (scores, tied_scores))
    figures = {
        "output, difference from the formula": max_difference(output, expected_output),
        "weights, difference from the formula": max_difference(recording["attend"], expected_weights),
        "smallest relative distance between two projections": distance,
        "asymmetry of the scores": asymmetry,
    }
    return CheckResult(
        figures,
        {
            "the layer computes the formula": figures["output, difference from the formula"] < TOLERANCE
            and figures["weights, difference from the formula"] < TOLERANCE,
            "the three projections differ": distance > 0.5,
            "scores are not symmetric": asymmetry > 0.5,
            "scores with W_Q = W_K are symmetric": tied_asymmetry < TOLERANCE,
        },
        {"asymmetry with W_Q = W_K": tied_asymmetry},
    )


KEY_WIDTHS = (4, 16, 64, 256, 1024)
NUM_KEYS = 64


def softmax_saturation(seed: int, power: float) -> tuple[list[float], list[float]]:
    """Return the entropy of a row over NUM_KEYS keys and the norm of the softmax's Jacobian, for each key width.

    Scores are divided by d_k ** power.
    """
    entropies, gradients = [], []
    for width in KEY_WIDTHS:
        query, key = randn(200, 1, width, seed=seed + width), randn(200, NUM_KEYS, width, seed=seed + width + 1)
        weights = softmax_rows((query @ key.mT)[:, 0] / width**power)
        entropies.append(float(entropy(weights).mean()))
        jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None]
        gradients.append(float(jacobian.norm(dim=(1, 2)).mean()))
    return entropies, gradients


def check_scaled_once(seed: int) -> CheckResult:
    layer, x = build_layer(42, 3, seed=seed), randn(2, 11, 42, seed=seed + 1)
    with torch.no_grad(), record(layer) as recording:
        layer(x)
        scaled_once, scaled_twice = reference_attention(layer, x)[0], reference_attention(layer, x, 2.0)[0]
    unscaled, scaled, double = (softmax_saturation(seed, power) for power in (0.0, 0.5, 1.0))
    max_entropy = math.log(NUM_KEYS)
    entropy_falls = all(b < a for a, b in zip(unscaled[0], unscaled[0][1:], strict=False))
    figures = {
        "weights, difference from one division": max_difference(recording["attend"], scaled_once),
        "d_k": KEY_WIDTHS,
        "entropy unscaled": unscaled[0],
        "entropy scaled": scaled[0],
        "log n": max_entropy,
        "gradient unscaled": unscaled[1],
        "gradient scaled": scaled[1],
    }
    return CheckResult(
        figures,
        {
            "the layer divides once": figures["weights, difference from one division"] < TOLERANCE,
            "unscaled entropy falls as d_k grows": entropy_falls and unscaled[0][-1] < 0.1 * max_entropy,
            "unscaled gradient falls from d_k = 16 on, to less than half": sorted(unscaled[1][1:], reverse=True)
            == unscaled[1][1:]
            and unscaled[1][-1] < 0.5 * scaled[1][-1],
            "scaled entropy is stable": max(scaled[0]) - min(scaled[0]) < 0.1 * max_entropy,
            "scaled gradient is stable": max(scaled[1]) < 1.5 * min(scaled[1]),
        },
        {
            "weights, difference from two divisions": max_difference(recording["attend"], scaled_twice),
            "entropy scaled twice": double[0],
            "fraction of the maximal entropy, scaled twice at d_k = 1024": double[0][-1] / max_entropy,
        },
        (
            Plot(
                "Entropy of a row of 64 weights, inputs with unit variance",
                "d_k",
                "nats",
                [
                    {"name": name, "x": list(KEY_WIDTHS), "y": entropies}
                    for name, (entropies, _) in (
                        ("not scaled", unscaled),
                        ("scaled once", scaled),
                        ("scaled twice", double),
                    )
                ],
                "x",
            ),
        ),
    )


def check_bare_layer(seed: int) -> CheckResult:
    """Compare the bare layer (U = 7, I = 10) with the general layer with W_O = I, no biases, and W_Q times sqrt(U)."""
    dim, heads, key_width = 30, 3, 7
    with seeded(seed):
        bare = MultiHeadAttention(dim, heads, "bare", key_width=key_width).double().eval()
        general = MultiHeadAttention(dim, heads, "dot", key_width=key_width).double().eval()
    w_q, w_kv = bare.mechanism.q.weight, bare.mechanism.kv.weight  # type: ignore[union-attr]
    packed = general.mechanism.qkv
    with torch.no_grad():
        packed.weight.copy_(torch.cat((w_q * math.sqrt(key_width), w_kv)))  # type: ignore[union-attr]
        packed.bias.zero_()  # type: ignore[union-attr]
        assert isinstance(general.out, nn.Linear)
        general.out.weight.copy_(torch.eye(dim, dtype=torch.float64))
        general.out.bias.zero_()
        x = randn(2, 13, dim, seed=seed + 1)
        output, expected = bare(x), general(x)
    params = bare.cost(13).params
    figures = {
        "largest difference": max_difference(output, expected),
        "U": key_width,
        "I": dim // heads,
        "parameters of the bare layer": params,
        "K J (2 U + I)": heads * dim * (2 * key_width + dim // heads),
    }
    return CheckResult(
        figures,
        {
            "the outputs are equal": figures["largest difference"] < TOLERANCE,
            "the number of parameters is K J (2 U + I)": params == heads * dim * (2 * key_width + dim // heads)
            and params == sum(p.numel() for p in bare.parameters()),
            "there is no output matrix": not isinstance(bare.out, nn.Linear),
        },
    )


def check_heads_cost(seed: int) -> CheckResult:
    """Count matrix products, softmax elements and score memory for 1, 2, 4 and 8 heads."""
    n, dim = 32, 64
    products, softmaxes, memories, formulas = [], [], [], []
    head_counts = (1, 2, 4, 8)
    for heads in head_counts:
        layer = build_layer(dim, heads, seed=seed)
        x = randn(1, n, dim, seed=seed + 1)
        with torch.no_grad(), record(layer) as recording:
            output = layer(x)
        with torch.no_grad(), Trace() as trace:
            layer(x)
        products.append(trace.flops)
        softmaxes.append(recording["attend"].numel())
        memories.append(layer.cost(n).memory)
        formulas.append(layer.cost(n).flops)
    with torch.no_grad():
        _, expected = reference_attention(layer, x)
    figures = {
        "heads": head_counts,
        "FLOPs of matrix products": products,
        "FLOPs by the cost card": formulas,
        "softmax elements": softmaxes,
        "bytes of scores": memories,
        "concatenated heads, difference from the formula": max_difference(output, expected),
    }
    return CheckResult(
        figures,
        {
            "matrix products do not depend on h": len(set(products)) == 1 and products == formulas,
            "softmax elements grow with h": [s // softmaxes[0] for s in softmaxes] == list(head_counts),
            "score memory grows with h": [m // memories[0] for m in memories] == list(head_counts)
            and memories == [4 * s for s in softmaxes],
            "heads are concatenated": figures["concatenated heads, difference from the formula"] < TOLERANCE,
        },
        {"softmax elements of 8 heads over those of 1": softmaxes[-1] / softmaxes[0]},
    )


def check_head_axes(seed: int) -> CheckResult:
    """Check that split_heads splits the width into heads at every position, and that rows of weights sum to one."""
    x = torch.arange(2 * 5 * 6, dtype=torch.float64).view(2, 5, 6)
    split = split_heads(x, 3)
    expected = torch.stack([torch.stack([row[:, 2 * h : 2 * h + 2] for h in range(3)]) for row in x])
    layer, y = build_layer(30, 3, seed=seed), randn(2, 7, 30, seed=seed)
    mechanism, positions = layer.mechanism, range(7)
    with torch.no_grad():
        query, (key, value) = mechanism.project_query(y, positions), mechanism.project_kv(y, positions)
        weights = self_attention_scores(mechanism, y).weights()
    tensors = {"queries": query, "keys": key, "values": value, "weights": weights}
    shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
    difference, ones = max_difference(split, expected), torch.ones(2, 3, 7, dtype=torch.float64)
    return CheckResult(
        {"largest difference": difference, **shapes, "rows sum to": float(weights.sum(-1).mean())},
        {
            "(b, h, n, d/h)": difference == 0.0 and shapes["queries"] == [2, 3, 7, 10],
            "rows sum to one, columns do not": max_difference(weights.sum(-1), ones) < TOLERANCE
            and max_difference(weights.sum(-2), ones) > 1e-3,
        },
    )


CLAIMS = [
    Claim(
        "three-projections",
        TOPIC,
        "exact",
        "Queries, keys and values are three different projections of the same input. With one matrix for queries and "
        "keys the scores would be symmetric: token i would score token j exactly as j scores i.",
        "q = W_Q x, k = W_K x, v = W_V x;  W_Q = W_K gives s(i, j) = s(j, i)",
        check_three_projections,
        "identical keys and queries",
    ),
    Claim(
        "scaled-once",
        TOPIC,
        "exact",
        "Scores are divided by sqrt(d_k) once. Without the division, for inputs with unit variance, the softmax "
        "saturates as d_k grows: its entropy and its gradient fall towards zero.",
        "a = softmax(q·k / sqrt(d_k))",
        check_scaled_once,
        "scaled twice",
    ),
    Claim(
        "heads-axes",
        TOPIC,
        "exact",
        "The width is split into h heads at every position, and each row of weights sums to one over the keys.",
        "(b, n, h·d) -> (b, h, n, d);  Σ_k a(q, k) = 1",
        check_head_axes,
    ),
    Claim(
        "bare-layer",
        TOPIC,
        "exact",
        "K heads with key width U and value width I = J/K, concatenated without an output matrix, are a special case "
        "of the general layer; U and I may differ.",
        "K heads, W_Q, W_K (U, J), W_V (I, J), out = [head_1; ...; head_K]",
        check_bare_layer,
    ),
    Claim(
        "multi-head-cost",
        TOPIC,
        "exact",
        "h heads of width d/h need the same matrix products as one head of width d, but h times the softmax elements "
        "and h times the score memory; their outputs are concatenated.",
        "FLOPs 8nd² + 4n²d for every h;  h n² weights",
        check_heads_cost,
        "the same cost",
    ),
]
