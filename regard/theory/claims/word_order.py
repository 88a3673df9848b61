"""Claims about word order: attention ignores it without positions or a mask, and what changes with them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard.attention.mechanisms import MECHANISMS
from regard.attention.positions import sinusoidal
from regard.inspect import record
from regard.models import bert
from regard.theory.claim import CheckResult, Claim, Plot
from regard.theory.claims.check_helpers import (
    TOLERANCE,
    build_layer,
    max_difference,
    perturb,
    randn,
    random_ids,
    seeded,
    self_attention_scores,
)

TOPIC = "order"


def check_sinusoidal_rotation(seed: int) -> CheckResult:
    """Check PE(pos + k) = M^k PE(pos) for every position, with the rotation blocks written out."""
    dim, num_positions = 16, 400
    positions = torch.arange(num_positions)
    table = sinusoidal.sinusoidal_table(positions, dim)
    shift_error, power_error, inverse_error, transposed_error = 0.0, 0.0, 0.0, 0.0
    for k in (1, 2, 7, 50):
        shifted = sinusoidal.sinusoidal_table(positions + k, dim)
        m = sinusoidal.shift_matrix(k, dim)
        power, inverse = torch.linalg.matrix_power(sinusoidal.shift_matrix(1, dim), k), sinusoidal.shift_matrix(-k, dim)
        shift_error = max(shift_error, max_difference(table @ m.T, shifted))
        power_error = max(power_error, max_difference(power, m))
        inverse_error = max(inverse_error, max_difference(m @ inverse, torch.eye(dim, dtype=torch.float64)))
        transposed_error = max(transposed_error, max_difference(table @ m, shifted))  # Mᵀ: wrong sign of the sines
    omega = float(sinusoidal.frequencies(dim)[1])
    block = sinusoidal.shift_matrix(3, dim)[2:4, 2:4]
    c, s = math.cos(3 * omega), math.sin(3 * omega)
    expected_block = torch.tensor([[c, s], [-s, c]], dtype=torch.float64)
    distances = torch.cdist(table, table) + 1e9 * torch.eye(num_positions, dtype=torch.float64)
    figures = {
        "M^k PE(pos) against PE(pos + k)": shift_error,
        "M to the power k against M^k": power_error,
        "M^k M^-k against I": inverse_error,
        "block against [[cos, sin], [-sin, cos]]": max_difference(block, expected_block),
        "determinant": float(torch.linalg.det(sinusoidal.shift_matrix(7, dim))),
        "smallest distance between 400 positions": float(distances.min()),
    }
    return CheckResult(
        figures,
        {
            "the same rotation for every position": shift_error < 1e-9,
            "(sin, cos) order: [[cos, sin], [-sin, cos]]": figures["block against [[cos, sin], [-sin, cos]]"]
            < TOLERANCE,
            "invertible": inverse_error < 1e-9 and abs(figures["determinant"] - 1) < 1e-9,
            "k single steps equal one step of k": power_error < 1e-9,
            "every position is distinct": figures["smallest distance between 400 positions"] > 1e-3,
        },
        {"error with the wrong sign of the sines": transposed_error},
        (_positions_plot(),),
    )


def _positions_plot() -> Plot:
    positions = torch.arange(0, 60)
    table = sinusoidal.sinusoidal_table(positions, 16)
    curves = [{"name": f"component {i}", "x": positions.tolist(), "y": table[:, i].tolist()} for i in (0, 2, 4, 6)]
    return Plot("Sinusoidal positions: four of sixteen components", "position", "value", curves)


def check_permutation(seed: int) -> CheckResult:
    """Permute the input, undo the permutation on the output, and measure the difference."""
    n = 11
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + 3))
    equivariant: dict[str, float] = {}
    sensitive: dict[str, float] = {}

    def permutation_error(layer: Any, x: Tensor, **options: Any) -> float:
        with torch.no_grad():
            return max_difference(layer(x, **options)[:, order], layer(x[:, order], **options))

    x = randn(2, n, 24, seed=seed + 1)
    for name, mechanism_class in MECHANISMS.items():
        layer = build_layer(24, 2, name, seed=seed)
        (sensitive if mechanism_class.order_sensitive else equivariant)[name] = permutation_error(layer, x)
    dot = build_layer(24, 2, seed=seed)
    sensitive["dot, causal mask"] = permutation_error(dot, x, causal=True)
    for kind in ("rotary", "t5", "alibi"):
        sensitive[f"dot, {kind} positions"] = permutation_error(build_layer(24, 2, seed=seed, positions=kind), x)
    positions = sinusoidal.Sinusoidal(24, 2)
    with torch.no_grad():
        output, permuted = (dot(positions.embed(y, range(n))) for y in (x, x[:, order]))
    sensitive["dot, sinusoidal positions"] = max_difference(output[:, order], permuted)
    with seeded(seed):
        model = perturb(bert.BERT(50, dim=24, hidden=32, layers=2, heads=2).double()).eval()
    ids = random_ids(7, 50, (1, n), seed)
    with torch.no_grad():
        bert_error = max_difference(model(ids)[0][:, order], model(ids[:, order])[0])
    for name in ("local", "local-2d"):  # the default window is wider than the text, so a narrow one is measured
        del sensitive[name]
    for name in ("local", "local-2d"):
        sensitive[f"{name}, window 2"] = permutation_error(build_layer(24, 2, f"{name}:window=2", seed=seed), x)
    return CheckResult(
        {"equivariant, largest difference": equivariant, "not equivariant, difference": sensitive},
        {
            "content scores alone are permutation-equivariant": bool(equivariant)
            and max(equivariant.values()) < TOLERANCE,
            "positions, a causal or local mask, or a Synthesizer break it": min(sensitive.values()) > 1e-6,
            "BERT depends on word order": bert_error > 1e-3,
        },
        {"change of BERT's logits when words are permuted": bert_error},
    )


def check_causal_mask(seed: int) -> CheckResult:
    """Check that future positions have weight 0, send no gradient and do not change the output."""
    n, future_weight, row_error, future_gradient, output_change = 13, 0.0, 0.0, 0.0, 0.0
    own_gradient = math.inf
    for name in ("dot", "additive", "relative", "local:window=5"):
        layer, x = build_layer(24, 2, name, seed=seed), randn(2, n, 24, seed=seed + 1)
        with torch.no_grad(), record(layer) as recording:
            output = layer(x, causal=True)
        weights = recording["attend"]
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        future_weight = max(future_weight, float(weights[..., future].abs().max()))
        row_error = max(row_error, max_difference(weights.sum(-1), torch.ones_like(weights.sum(-1))))
        for t in (0, n // 2, n - 2):
            inputs = x.clone().requires_grad_()
            (grad,) = torch.autograd.grad(layer(inputs, causal=True)[:, t].square().sum(), inputs)
            future_gradient = max(future_gradient, float(grad[:, t + 1 :].abs().max()))
            own_gradient = min(own_gradient, float(grad[:, t].abs().max()))
            changed = x.clone()
            changed[:, t + 1 :] = 100 * changed[:, t + 1 :].flip(1) + 7
            with torch.no_grad():
                new_output = layer(changed, causal=True)
            output_change = max(output_change, max_difference(new_output[:, : t + 1], output[:, : t + 1]))
    return CheckResult(
        {
            "largest weight of a later position": future_weight,
            "row sums, difference from one": row_error,
            "largest gradient from a later position": future_gradient,
            "change of an output when later positions change": output_change,
            "smallest gradient from the position itself": own_gradient,
        },
        {
            "weight exactly 0": future_weight == 0.0,
            "each row sums to one": row_error < TOLERANCE,
            "no gradient from the future": future_gradient == 0.0,
            "no change from the future": output_change == 0.0,
            "each position attends to itself": own_gradient > 0.0,
        },
    )


def check_relative_distance(seed: int) -> CheckResult:
    """Check that relative positions (Shaw 2018) depend on the clipped distance alone."""
    clip, n, offset = 3, 8, 5
    mechanism: Any = build_layer(24, 2, "relative", seed=seed, clip=clip).mechanism
    x = randn(1, n, 24, seed=seed + 1)
    with torch.no_grad():
        # The same text at position 0 and at position 5, after other text.
        prefixed = torch.cat((randn(1, offset, 24, seed=seed + 2), x), 1)
        short, long = (score_logits(mechanism, y) for y in (x, prefixed))
        shift_error = max_difference(short, long[..., offset:, offset:])
        dot = build_layer(24, 2, seed=seed).mechanism
        positions = sinusoidal.Sinusoidal(24, 2)
        short, long = (score_logits(dot, positions.embed(y, range(y.shape[1]))) for y in (x, prefixed))
        absolute_shift_error = max_difference(short, long[..., offset:, offset:])
        repeated = randn(1, 1, 24, seed=seed + 3).expand(1, n, 24)  # one word n times: only the distance differs
        scores = score_logits(mechanism, repeated)[0, 0]
    distance = torch.arange(n)[None] - torch.arange(n)[:, None]
    by_distance = {int(d): scores[distance == d] for d in distance.unique()}
    spread = max(float(v.max() - v.min()) for v in by_distance.values())
    clipped = max(abs(float(by_distance[d][0] - by_distance[clip][0])) for d in range(clip, n))
    distinct = len({round(float(by_distance[d][0]), 9) for d in range(-clip, clip + 1)})
    sides = abs(float(by_distance[clip][0] - by_distance[-clip][0]))
    tables = {"keys": list(mechanism.on_keys.shape), "values": list(mechanism.on_values.shape)}
    return CheckResult(
        {
            "scores of the same text 5 positions later, difference": shift_error,
            "scores at one distance, range": spread,
            "scores beyond the clip, difference": clipped,
            "number of distinct scores within the clip": distinct,
            "left against right beyond the clip, difference": sides,
            "shapes of the embeddings": tables,
        },
        {
            "scores depend on the distance, not on the position": shift_error < TOLERANCE and spread < TOLERANCE,
            "the distance is clipped": clipped < TOLERANCE and sides > 1e-6,
            "each distance within the clip has its own score": distinct == 2 * clip + 1,
            "embeddings on keys and values": tables == {"keys": [7, 12], "values": [7, 12]},
        },
        {"with sinusoidal positions the same text 5 positions later differs by": absolute_shift_error},
    )


def score_logits(mechanism: Any, x: Tensor) -> Tensor:
    """Return the scores before the softmax, (b, h, q, k)."""
    scores: Any = self_attention_scores(mechanism, x)
    return scores._logits() if hasattr(scores, "_logits") else (scores.query * scores.scale) @ scores.key.mT


CLAIMS = [
    Claim(
        "sinusoidal-rotation",
        TOPIC,
        "exact",
        "A shift by k positions is one linear map, the same for every position: an invertible block rotation. No two "
        "positions are equal.",
        "PE(pos+k) = M^k PE(pos), blocks [[cos kω, sin kω], [-sin kω, cos kω]] in the (sin, cos) order",
        check_sinusoidal_rotation,
        "the sign of the sine terms",
    ),
    Claim(
        "permutation",
        TOPIC,
        "exact",
        "Content scores without positions and without a causal or local mask are permutation-equivariant: the order of "
        "the words does not matter. With positions, a causal or local mask or a Synthesizer it does.",
        "f(Px) = P f(x)",
        check_permutation,
        "BERT ignores word order",
    ),
    Claim(
        "causal-mask",
        TOPIC,
        "exact",
        "-inf above the diagonal gives later positions a weight of exactly 0. Each row still sums to one, and no "
        "gradient flows from the future.",
        "s(i, j) = -inf for j > i",
        check_causal_mask,
    ),
    Claim(
        "relative-distance",
        TOPIC,
        "exact",
        "Relative positions (Shaw 2018) are trained embeddings of the clipped distance on keys and values: scores "
        "depend on the distance and not on the position, and beyond the clip only on the side.",
        "s(i, j) = q_i·(k_j + a^K_c(j-i)) / sqrt(d_k)",
        check_relative_distance,
        "it adapts to any distance (without mentioning the clip)",
    ),
]
