"""What attention knows of order: nothing without positions or a mask; rotations, distances and triangles with them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from regard.attention.mechanisms import MECHANISMS
from regard.attention.positions import sinusoidal
from regard.attention.token_positions import Places
from regard.inspect import record
from regard.models import bert
from regard.theory.claim import Claim, Found, Plot
from regard.theory.claims.check_helpers import gap, layer, noise, seeded, shaken

TOPIC = "order"
TIGHT = 1e-10


def rotations(seed: int) -> Found:
    """PE(pos + k) = M^k PE(pos), for every pos, with the blocks written out here once more."""
    dim, places, ks = 16, 400, (1, 2, 7, 50)
    at = torch.arange(places)
    table = sinusoidal.table(at, dim)
    exact, power, inverse, wrong = 0.0, 0.0, 0.0, 0.0
    for k in ks:
        moved = sinusoidal.table(at + k, dim)
        m = sinusoidal.shift(k, dim)
        exact = max(exact, gap(table @ m.T, moved))
        power = max(power, gap(torch.linalg.matrix_power(sinusoidal.shift(1, dim), k), m))
        inverse = max(inverse, gap(m @ sinusoidal.shift(-k, dim), torch.eye(dim, dtype=torch.float64)))
        wrong = max(wrong, gap(table @ m, moved))  # Mᵀ: the sign of the sines turned
    omega = float(sinusoidal.frequencies(dim)[1])
    block = sinusoidal.shift(3, dim)[2:4, 2:4]
    c, s = math.cos(3 * omega), math.sin(3 * omega)
    wanted = torch.tensor([[c, s], [-s, c]], dtype=torch.float64)
    far = torch.cdist(table, table) + 1e9 * torch.eye(places, dtype=torch.float64)
    figures = {
        "M^k PE(pos) against PE(pos + k)": exact,
        "M to the power k against M^k": power,
        "M^k M^-k against I": inverse,
        "block against [[cos, sin], [-sin, cos]]": gap(block, wanted),
        "determinant": float(torch.linalg.det(sinusoidal.shift(7, dim))),
        "nearest two of 400 positions": float(far.min()),
    }
    return Found(
        figures,
        {
            "the same rotation for every position": exact < 1e-9,
            "(sin, cos) order: [[cos, sin], [-sin, cos]]": figures["block against [[cos, sin], [-sin, cos]]"] < TIGHT,
            "invertible": inverse < 1e-9 and abs(figures["determinant"] - 1) < 1e-9,
            "steps add up": power < 1e-9,
            "every position distinct": figures["nearest two of 400 positions"] > 1e-3,
        },
        {"with the sign of the sines turned": wrong},
    )


def equivariant(seed: int) -> Found:
    """Permute the input; undo the permutation on the output; look at the difference."""
    n = 11
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + 3))
    free: dict[str, float] = {}
    ordered: dict[str, float] = {}

    def moved(made, x: Tensor, **how) -> float:
        with torch.no_grad():
            return gap(made(x, **how)[:, order], made(x[:, order], **how))

    x = noise(2, n, 24, seed=seed + 1)
    for name, cls in MECHANISMS.items():
        made = layer(24, 2, name, seed=seed)
        (ordered if cls.ordered else free)[name] = moved(made, x)
    plain = layer(24, 2, seed=seed)
    ordered["dot, causal mask"] = moved(plain, x, causal=True)
    for kind in ("rotary", "t5", "alibi"):
        ordered[f"dot, {kind} positions"] = moved(layer(24, 2, seed=seed, positions=kind), x)
    place = sinusoidal.Sinusoidal(24, 2)
    with torch.no_grad():
        here, there = (plain(place.embed(y, range(n))) for y in (x, x[:, order]))
    ordered["dot, sinusoidal positions"] = gap(here[:, order], there)
    with seeded(seed):
        model = shaken(bert.BERT(bert.Config(vocab=50, dim=24, hidden=32, layers=2, heads=2)).double()).eval()
    ids = torch.randint(7, 50, (1, n), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        words = gap(model(ids)[0][:, order], model(ids[:, order])[0])
    near = {"local", "local-2d"}  # with a window wider than the text nothing is local
    reach = {k: v for k, v in ordered.items() if k not in near}
    for name in sorted(near):
        reach[f"{name}, window 2"] = moved(layer(24, 2, f"{name}:window=2", seed=seed), x)
    return Found(
        {"equivariant up to": free, "not equivariant, by": reach},
        {
            "content scores alone are permutation-equivariant": bool(free) and max(free.values()) < TIGHT,
            "positions, a causal or local mask, or a Synthesizer break it": min(reach.values()) > 1e-6,
            "BERT knows word order": words > 1e-3,
        },
        {"BERT's logits change when words trade places, by": words},
    )


def causal(seed: int) -> Found:
    """-inf above the diagonal: weight exactly 0, rows of one, and no gradient from the future."""
    n, leaks, rows, seen_grad, changed = 13, 0.0, 0.0, 0.0, 0.0
    own = math.inf
    for name in ("dot", "additive", "relative", "local:window=5"):
        made, x = layer(24, 2, name, seed=seed), noise(2, n, 24, seed=seed + 1)
        with torch.no_grad(), record(made) as seen:
            out = made(x, causal=True)
        weights = seen["attend"]
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        leaks = max(leaks, float(weights[..., future].abs().max()))
        rows = max(rows, gap(weights.sum(-1), torch.ones_like(weights.sum(-1))))
        for now in (0, n // 2, n - 2):
            given = x.clone().requires_grad_()
            (grad,) = torch.autograd.grad(made(given, causal=True)[:, now].square().sum(), given)
            seen_grad = max(seen_grad, float(grad[:, now + 1 :].abs().max()))
            own = min(own, float(grad[:, now].abs().max()))
            other = x.clone()
            other[:, now + 1 :] = 100 * other[:, now + 1 :].flip(1) + 7
            with torch.no_grad():
                changed = max(changed, gap(made(other, causal=True)[:, : now + 1], out[:, : now + 1]))
    figures = {
        "greatest weight of a later place": leaks,
        "rows of weights against one": rows,
        "greatest gradient from a later place": seen_grad,
        "change of an output when the future changes": changed,
        "least gradient from the place itself": own,
    }
    return Found(
        figures,
        {
            "weight exactly 0": leaks == 0.0,
            "each row sums to one": rows < TIGHT,
            "no gradient from the future": seen_grad == 0.0,
            "no change from the future": changed == 0.0,
            "each place sees itself": own > 0.0,
        },
    )


def relative(seed: int) -> Found:
    """Shaw: the same words further on give the same scores; beyond the clip only the side counts."""
    clip, n, pad = 3, 8, 5
    made = layer(24, 2, "relative", seed=seed, clip=clip)
    m = made.mechanism
    x = noise(1, n, 24, seed=seed + 1)
    with torch.no_grad():
        # The same text at the start and 5 places on: what stands before is other text.
        long = torch.cat((noise(1, pad, 24, seed=seed + 2), x), 1)
        scores = [_scores(m, y) for y in (x, long)]
        shifted = gap(scores[0], scores[1][..., pad:, pad:])
        absolute = layer(24, 2, seed=seed)
        place = sinusoidal.Sinusoidal(24, 2)
        others = [_scores(absolute.mechanism, place.embed(y, range(y.shape[1]))) for y in (x, long)]
        by_place = gap(others[0], others[1][..., pad:, pad:])
        same = noise(1, 1, 24, seed=seed + 3).expand(1, n, 24)  # one word n times: only the distance is left
        alike = _scores(m, same)[0, 0]
    distance = torch.arange(n)[None] - torch.arange(n)[:, None]
    table = {int(d): alike[distance == d] for d in distance.unique()}
    spread = max(float(v.max() - v.min()) for v in table.values())
    clipped = max(abs(float(table[d][0] - table[clip][0])) for d in range(clip, n))
    within = len({round(float(table[d][0]), 9) for d in range(-clip, clip + 1)})
    beyond = abs(float(table[clip][0] - table[-clip][0]))
    figures = {
        "scores of the same text 5 places on, difference": shifted,
        "scores at one distance, spread": spread,
        "scores beyond the clip, difference": clipped,
        "different scores within the clip": within,
        "the two sides beyond the clip, difference": beyond,
        "tables": {"keys": list(m.on_keys.shape), "values": list(m.on_values.shape)},  # type: ignore[union-attr]
    }
    return Found(
        figures,
        {
            "scores depend on the distance, not on the place": shifted < TIGHT and spread < TIGHT,
            "clipped": clipped < TIGHT and beyond > 1e-6,
            "each distance within the clip has its own": within == 2 * clip + 1,
            "embeddings on keys and values": figures["tables"] == {"keys": [7, 12], "values": [7, 12]},
        },
        {"with sinusoidal positions the same text 5 places on differs by": by_place},
    )


def _scores(mechanism: Any, x: Tensor) -> Tensor:
    """Logits (b, h, q, k)."""
    n = x.shape[1]
    q, (k, _) = mechanism.query(x, range(n)), mechanism.remember(x, range(n))
    scores = mechanism.score(q, k, Places(range(n), range(n)))
    return scores._logits() if hasattr(scores, "_logits") else (scores.query * scores.scale) @ scores.key.mT


def _positions_plot() -> Plot:
    at = torch.arange(0, 60)
    table = sinusoidal.table(at, 16)
    curves = [{"name": f"component {i}", "x": at.tolist(), "y": table[:, i].tolist()} for i in (0, 2, 4, 6)]
    return Plot("Sinusoidal positions: four of sixteen components", "position", "value", curves)


def rotations_drawn(seed: int) -> Found:
    found = rotations(seed)
    return Found(found.figures, found.tests, found.counter, (_positions_plot(),))


CLAIMS = [
    Claim(
        "sinusoidal-rotation",
        TOPIC,
        "exact",
        "Moving by k is one linear map, the same for every position: a block rotation, which can be undone. No two "
        "positions are alike.",
        "PE(pos+k) = M^k PE(pos), blocks [[cos kω, sin kω], [-sin kω, cos kω]] in the (sin, cos) order",
        rotations_drawn,
        "the sign of the sine terms",
    ),
    Claim(
        "permutation",
        TOPIC,
        "exact",
        "Content scores without positions and without a causal or local mask are permutation-equivariant: the words "
        "may come in any order. With positions, a causal or local mask or a Synthesizer they are not.",
        "f(Px) = P f(x)",
        equivariant,
        "BERT ignores word order",
    ),
    Claim(
        "causal-mask",
        TOPIC,
        "exact",
        "-inf above the diagonal gives later places a weight of exactly 0; each row still sums to one, and no gradient "
        "flows from the future.",
        "s(i, j) = -inf for j > i",
        causal,
    ),
    Claim(
        "relative-distance",
        TOPIC,
        "exact",
        "Relative positions, after Shaw 2018, are trained embeddings of the clipped distance, on keys and on values: "
        "scores depend on the distance and not on the place, and beyond the clip on the side alone.",
        "s(i, j) = q_i·(k_j + a^K_c(j-i)) / sqrt(d_k)",
        relative,
        "it adapts to any distance, told without a clip",
    ),
]
