"""Queries, keys and values: three projections, one scale, heads, and the forms that come to the same."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from regard.attention.mechanisms.mechanism import heads_apart
from regard.attention.token_positions import Places
from regard.inspect import record
from regard.layers.multi_head_attention import MultiHead
from regard.theory.claim import Claim, Found, Plot
from regard.theory.claims.check_helpers import entropy, gap, layer, noise, seeded, weigh
from regard.theory.cost import Trace

TOPIC = "projections"
TIGHT = 1e-10


def matrices(made: MultiHead) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """W_Q, W_K (h, d_k, dim), W_V (h, d_v, dim) and all biases (h · (2 d_k + d_v)) of a packed layer."""
    packed, h = made.mechanism.qkv, made.mechanism.heads  # type: ignore[union-attr]
    parts = packed.weight.split(packed.widths)  # type: ignore[union-attr]
    q, k, v = (part.unflatten(0, (h, -1)) for part in parts)
    return q, k, v, packed.bias  # type: ignore[union-attr,return-value]


def by_hand(made: MultiHead, x: Tensor, scalings: float = 1.0) -> tuple[Tensor, Tensor]:
    """Weights (b, h, q, k) and output of self-attention from its matrices, index by index; scores divided
    `scalings` times by sqrt(d_k)."""
    q, k, v, bias = matrices(made)
    d_k = q.shape[1]
    b_q, b_k, b_v = (b.unflatten(0, (q.shape[0], -1)) for b in bias.split(made.mechanism.qkv.widths))  # type: ignore[union-attr]
    queries = torch.einsum("hud,bnd->bhnu", q, x) + b_q[:, None]
    keys = torch.einsum("hud,bnd->bhnu", k, x) + b_k[:, None]
    values = torch.einsum("hud,bnd->bhnu", v, x) + b_v[:, None]
    weights = weigh(torch.einsum("bhqu,bhku->bhqk", queries, keys) / math.sqrt(d_k) ** scalings)
    context = torch.einsum("bhqk,bhku->bqhu", weights, values).flatten(2)
    return weights, made.out(context)


def three_projections(seed: int) -> Found:
    made, x = layer(30, 3, seed=seed), noise(2, 11, 30, seed=seed + 1)
    with torch.no_grad(), record(made) as seen:
        out = made(x)
        weights, wanted = by_hand(made, x)
        q, k, v, _ = matrices(made)
        apart = min(float((a - b).norm() / a.norm()) for a, b in ((q, k), (q, v), (k, v)))
        scores = torch.einsum("hud,bqd,hue,bke->bhqk", q, x, k, x)
        tied = torch.einsum("hud,bqd,hue,bke->bhqk", q, x, q, x)
    lopsided, symmetric = (float((s - s.mT).norm() / s.norm()) for s in (scores, tied))
    figures = {
        "output against the formula": gap(out, wanted),
        "weights against the formula": gap(seen["attend"], weights),
        "least distance of two projections": apart,
        "asymmetry of scores": lopsided,
    }
    return Found(
        figures,
        {
            "the layer is the formula": figures["output against the formula"] < TIGHT
            and figures["weights against the formula"] < TIGHT,
            "the three are different": apart > 0.5,
            "scores are not symmetric": lopsided > 0.5,
            "with one matrix for both they are": symmetric < TIGHT,
        },
        {"asymmetry with identical queries and keys": symmetric},
    )


WIDTHS = (4, 16, 64, 256, 1024)
KEYS = 64


def saturation(seed: int, power: float) -> tuple[list[float], list[float]]:
    """Entropy of a row over KEYS keys, and the size of the softmax's gradient, for each width; scores divided by
    d_k ** power."""
    entropies, gradients = [], []
    for width in WIDTHS:
        q, k = noise(200, 1, width, seed=seed + width), noise(200, KEYS, width, seed=seed + width + 1)
        weights = weigh((q @ k.mT)[:, 0] / width**power)
        entropies.append(float(entropy(weights).mean()))
        # ‖diag(a) - a aᵀ‖, what a score can still change
        jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None]
        gradients.append(float(jacobian.norm(dim=(1, 2)).mean()))
    return entropies, gradients


def scaled_once(seed: int) -> Found:
    made, x = layer(42, 3, seed=seed), noise(2, 11, 42, seed=seed + 1)
    with torch.no_grad(), record(made) as seen:
        made(x)
        once, twice = by_hand(made, x)[0], by_hand(made, x, 2.0)[0]
    plain, scaled, double = (saturation(seed, power) for power in (0.0, 0.5, 1.0))
    most = math.log(KEYS)
    falls = all(b < a for a, b in zip(plain[0], plain[0][1:], strict=False))
    figures = {
        "weights against one division": gap(seen["attend"], once),
        "d_k": WIDTHS,
        "entropy unscaled": plain[0],
        "entropy scaled": scaled[0],
        "log n": most,
        "gradient unscaled": plain[1],
        "gradient scaled": scaled[1],
    }
    return Found(
        figures,
        {
            "the layer divides once": figures["weights against one division"] < TIGHT,
            "unscaled entropy falls as d_k grows": falls and plain[0][-1] < 0.1 * most,
            "unscaled gradient falls from d_k = 16 on, below half": sorted(plain[1][1:], reverse=True) == plain[1][1:]
            and plain[1][-1] < 0.5 * scaled[1][-1],
            "scaled entropy stays": max(scaled[0]) - min(scaled[0]) < 0.1 * most,
            "scaled gradient stays": max(scaled[1]) < 1.5 * min(scaled[1]),
        },
        {
            "weights against two divisions": gap(seen["attend"], twice),
            "entropy scaled twice": double[0],
            "share of the highest entropy, scaled twice at d_k = 1024": double[0][-1] / most,
        },
        (
            Plot(
                "Entropy of a row of 64 weights, inputs of variance one",
                "d_k",
                "nats",
                [
                    {"name": name, "x": list(WIDTHS), "y": ys}
                    for name, ys in (
                        ("not scaled", plain[0]),
                        ("scaled once", scaled[0]),
                        ("scaled twice", double[0]),
                    )
                ],
                "x",
            ),
        ),
    )


def bare_layer(seed: int) -> Found:
    """The bare layer (U = 7, I = 10) against the general layer with W_O = I, no biases, and W_Q times sqrt(U)."""
    dim, heads, u = 30, 3, 7
    with seeded(seed):
        bare = MultiHead(dim, heads, "bare", key_width=u).double().eval()
        general = MultiHead(dim, heads, "dot", key_width=u).double().eval()
    q, k = bare.mechanism.q.weight, bare.mechanism.kv.weight  # type: ignore[union-attr]
    packed = general.mechanism.qkv
    with torch.no_grad():
        packed.weight.copy_(torch.cat((q * math.sqrt(u), k)))  # type: ignore[union-attr]
        packed.bias.zero_()  # type: ignore[union-attr]
        assert isinstance(general.out, nn.Linear)
        general.out.weight.copy_(torch.eye(dim, dtype=torch.float64))
        general.out.bias.zero_()
        x = noise(2, 13, dim, seed=seed + 1)
        out, wanted = bare(x), general(x)
    params = bare.cost(13).params
    figures = {
        "largest difference": gap(out, wanted),
        "U": u,
        "I": dim // heads,
        "parameters, bare": params,
        "K J (2 U + I)": heads * dim * (2 * u + dim // heads),
    }
    return Found(
        figures,
        {
            "the same output": figures["largest difference"] < TIGHT,
            "as many parameters as said": params == heads * dim * (2 * u + dim // heads)
            and params == sum(p.numel() for p in bare.parameters()),
            "no output matrix": not isinstance(bare.out, nn.Linear),
        },
    )


def heads_cost(seed: int) -> Found:
    """Counted on the unfused computation: matrix products, and what the softmax reads."""
    n, dim = 32, 64
    products, softmaxes, memories, formulas = [], [], [], []
    counts = (1, 2, 4, 8)
    for heads in counts:
        made = layer(dim, heads, seed=seed)
        x = noise(1, n, dim, seed=seed + 1)
        with torch.no_grad(), record(made) as seen:
            made(x)
        with torch.no_grad(), Trace() as fused:
            made(x)
        products.append(fused.flops)
        softmaxes.append(seen["attend"].numel())
        memories.append(made.cost(n).memory)
        formulas.append(made.cost(n).flops)
    with torch.no_grad(), record(made) as seen:
        out = made(x)
        _, wanted = by_hand(made, x)
    figures = {
        "heads": counts,
        "FLOPs of matrix products": products,
        "FLOPs by the cost card": formulas,
        "weights to normalise": softmaxes,
        "bytes of scores": memories,
        "heads concatenated against the formula": gap(out, wanted),
    }
    return Found(
        figures,
        {
            "the same matrix products": len(set(products)) == 1 and products == formulas,
            "h times the softmax": [s // softmaxes[0] for s in softmaxes] == list(counts),
            "h times the score memory": [m // memories[0] for m in memories] == list(counts)
            and memories == [4 * s for s in softmaxes],
            "heads are concatenated": figures["heads concatenated against the formula"] < TIGHT,
        },
        {"softmax of 8 heads over that of 1": softmaxes[-1] / softmaxes[0]},
    )


def apart_and_joined(seed: int) -> Found:
    """heads_apart cuts the width into heads, position by position."""
    x = torch.arange(2 * 5 * 6, dtype=torch.float64).view(2, 5, 6)
    cut = heads_apart(x, 3)
    wanted = torch.stack([torch.stack([row[:, 2 * h : 2 * h + 2] for h in range(3)]) for row in x])
    made, y = layer(30, 3, seed=seed), noise(2, 7, 30, seed=seed)
    m = made.mechanism
    with torch.no_grad():
        q, (k, v) = m.query(y, range(7)), m.remember(y, range(7))
        weights = m.score(q, k, Places(range(7), range(7))).weights()
    shapes = {"queries": list(q.shape), "keys": list(k.shape), "values": list(v.shape), "weights": list(weights.shape)}
    figures = {"largest difference": gap(cut, wanted), **shapes, "rows sum to": float(weights.sum(-1).mean())}
    return Found(
        figures,
        {
            "(b, h, n, d/h)": gap(cut, wanted) == 0.0 and shapes["queries"] == [2, 3, 7, 10],
            "rows, not columns, sum to one": gap(weights.sum(-1), torch.ones(2, 3, 7, dtype=torch.float64)) < TIGHT
            and gap(weights.sum(-2), torch.ones(2, 3, 7, dtype=torch.float64)) > 1e-3,
        },
    )


CLAIMS = [
    Claim(
        "three-projections",
        TOPIC,
        "exact",
        "Queries, keys and values are three different projections of the same input. With one matrix for queries and "
        "keys the scores would be symmetric: a word would regard another exactly as much as it is regarded.",
        "q = W_Q x, k = W_K x, v = W_V x;  W_Q = W_K gives s(i, j) = s(j, i)",
        three_projections,
        "identical keys and queries",
    ),
    Claim(
        "scaled-once",
        TOPIC,
        "exact",
        "Scores are divided by sqrt(d_k) once. Without it, at inputs of variance one, the softmax saturates as d_k "
        "grows: its entropy and its gradient fall towards zero.",
        "a = softmax(q·k / sqrt(d_k))",
        scaled_once,
        "scaled twice",
    ),
    Claim(
        "heads-axes",
        TOPIC,
        "exact",
        "The width is cut into h heads at every position, and each row of weights, over the keys, sums to one.",
        "(b, n, h·d) -> (b, h, n, d);  Σ_k a(q, k) = 1",
        apart_and_joined,
    ),
    Claim(
        "bare-layer",
        TOPIC,
        "exact",
        "K heads with key width U and value width I = J/K, concatenated with no output matrix, are one setting of the "
        "general layer; U need not be I.",
        "K heads, W_Q, W_K (U, J), W_V (I, J), out = [head_1; ...; head_K]",
        bare_layer,
    ),
    Claim(
        "multi-head-cost",
        TOPIC,
        "exact",
        "h heads of width d/h cost the same matrix products as one head of width d, and h times the softmax and the "
        "memory of the scores; their outputs are concatenated.",
        "FLOPs 8nd² + 4n²d for every h;  h n² weights",
        heads_cost,
        "the same cost",
    ),
]
