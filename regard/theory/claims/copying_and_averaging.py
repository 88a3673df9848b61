"""What one head can be made to do, and what two do better: copying, averaging, fragile and sturdy, weights by hand."""

from __future__ import annotations

import math

import torch

from regard.theory.claim import Claim, CheckResult, Plot, is_above
from regard.theory.claims import hand_set_attention as made
from regard.theory.claims.check_helpers import entropy, noise, weigh

TOPIC = "constructions"
DRAWS = 10_000


def any_entropy(seed: int) -> CheckResult:
    n = 20
    most = math.log(n)
    targets = [share * most for share in (0.02, 0.25, 0.5, 0.75, 0.98)]
    margins = [made.margin_for_entropy(t, n) for t in targets]
    reached = [float(entropy(made.copying(m, n))) for m in margins]
    even = float(entropy(weigh(torch.zeros(n, dtype=torch.float64))))
    sharp = float(entropy(made.copying(60.0, n)))
    xs = [i / 4 for i in range(0, 49)]
    return CheckResult(
        {
            "log n": most,
            "entropy wanted": targets,
            "margin": margins,
            "entropy reached": reached,
            "entropy at margin 60": sharp,
        },
        {
            "anything between": max(abs(a - b) for a, b in zip(targets, reached, strict=True)) < 1e-9,
            "from log n": abs(even - most) < 1e-12,
            "to 0": sharp < 1e-9,
            "the margin concentrates": margins == sorted(margins, reverse=True),
        },
        {"greatest weight of equal scores": 1 / n},
        (
            Plot(
                "Entropy of a row of 20 weights, and its greatest weight",
                "margin of one score over the others",
                "nats, and share",
                [
                    {"name": "entropy", "x": xs, "y": [float(entropy(made.copying(x, n))) for x in xs]},
                    {"name": "greatest weight", "x": xs, "y": [made.weight_of_margin(x, n) for x in xs]},
                ],
            ),
        ),
    )


def copies(seed: int) -> CheckResult:
    n, margins = 10, (0.0, 2.0, 5.0, 10.0, 20.0)
    weights = [float(made.copying(m, n)[0]) for m in margins]
    formula = [made.weight_of_margin(m, n) for m in margins]
    values = noise(n, 7, seed=seed)
    output = made.copying(margins[-1], n) @ values
    far = float((output - values[0]).abs().max())
    return CheckResult(
        {"margin": margins, "weight": weights, "1 / (1 + (n-1) exp(-margin))": formula, "output against v_j": far},
        {
            "the weight is that function of the margin": max(abs(a - b) for a, b in zip(weights, formula, strict=True))
            < 1e-12,
            "a wide margin copies": far < 1e-6 and weights[-1] > 1 - 1e-6,
            "no margin does not": abs(weights[0] - 1 / n) < 1e-12,
        },
        {"score before the softmax at margin 5": 5.0, "weight, after it": weights[2]},
    )


def averages(seed: int) -> CheckResult:
    n, strength = 10, 30.0
    weights = made.averaging(strength, n)
    values = noise(n, 7, seed=seed)
    output = weights @ values
    far = float((output - (values[0] + values[1]) / 2).abs().max())
    return CheckResult(
        {"weights of a and b": weights[:2], "all others together": float(weights[2:].sum()), "output against": far},
        {
            "(v_a + v_b) / 2": far < 1e-9,
            "each weight is a half": float((weights[:2] - 0.5).abs().max()) < 1e-9,
        },
        {"sum of both if each were 1": 2.0, "sum of a row": float(weights.sum())},
    )


def _histogram(values: torch.Tensor) -> tuple[list[float], list[float]]:
    edges = torch.linspace(0, 1, 41, dtype=torch.float64)
    counts = torch.histogram(values.clamp(0, 1), edges).hist
    return ((edges[:-1] + edges[1:]) / 2).tolist(), (counts / counts.sum()).tolist()


def fragile(seed: int) -> CheckResult:
    drawn = made.one_head(30.0, draws=DRAWS, seed=seed)
    share = drawn.coefficients[:, 0]
    ends = float(((share < 0.1) | (share > 0.9)).double().mean())
    middle = float(((share > 0.4) & (share < 0.6)).double().mean())
    error = 1.96 * math.sqrt(max(ends * (1 - ends), 1e-9) / DRAWS)
    x, y = _histogram(share)
    return CheckResult(
        {
            "draws": DRAWS,
            "mean": drawn.mean,
            "variance": drawn.variance,
            "share of draws at v_a or v_b": ends,
            "share near the middle": middle,
        },
        {
            "it swings between v_a and v_b": is_above(ends - error, ends + error, 0.8),
            "seldom in the middle": middle < 0.1,
            "each about as often": 0.4 < drawn.mean[0] < 0.6,
        },
        {},
        (
            Plot(
                "One head: weight of v_a in 10,000 draws",
                "weight of v_a",
                "share",
                [{"name": "one head", "x": x, "y": y}],
            ),
        ),
    )


def sturdy(seed: int) -> CheckResult:
    n, strength = 10, 10.0
    one = made.one_head(strength, n, draws=DRAWS, seed=seed)
    two = made.two_heads(strength, n, draws=DRAWS, seed=seed)
    expected = made.chance_of_failing(strength, n)
    error = 3 * math.sqrt(expected * (1 - expected) / DRAWS)
    limit = 0.5 * (1 + math.erf(-1))
    strengths = (5.0, 10.0, 20.0, 50.0, 200.0)
    fails = [made.two_heads(m, n, draws=DRAWS, seed=seed).off for m in strengths]
    wanted = [made.chance_of_failing(m, n) for m in strengths]
    noisy = made.two_heads(strength, n, alpha=0.1, draws=DRAWS, seed=seed)
    curves = []
    for name, drawn in (("one head", one), ("two heads", two)):
        x, y = _histogram(drawn.coefficients[:, 0])
        curves.append({"name": name, "x": x, "y": y})
    return CheckResult(
        {
            "draws": DRAWS,
            "mean of two heads": two.mean,
            "variance, one head": one.variance,
            "variance, two heads": two.variance,
            "ratio": one.variance / two.variance,
            "share of draws that fail": two.off,
            "Φ(√2(ln(n-1)/M - 1))": expected,
            "by M": dict(zip(strengths, fails, strict=True)),
            "by M, expected": dict(zip(strengths, wanted, strict=True)),
            "Φ(-√2)": limit,
            "variance with M√α = 3.2": noisy.variance,
        },
        {
            "near (v_a + v_b)/2": abs(two.mean[1] - 0.5) < 0.01 and two.mean[0] > 0.4,
            "steadier than one head": two.variance < one.variance / 3,
            "fails as often as said": all(
                abs(a - b) < 3 * math.sqrt(b * (1 - b) / DRAWS) + 1e-9 for a, b in zip(fails, wanted, strict=True)
            )
            and abs(two.off - expected) < error,
            "towards Φ(-√2)": abs(wanted[-1] - limit) < 0.01,
            "needs M√α much below 1": noisy.variance > 1.5 * two.variance,
        },
        {"two heads fail in this share of draws": two.off},
        (Plot("Weight of v_a in 10,000 draws, M = 10, n = 10", "weight of v_a", "share", curves),),
    )


def hand_set(seed: int) -> CheckResult:
    beta = 6.0
    good = made.by_hand(beta).outputs
    same = made.by_hand(beta, identity=True).outputs
    added = {add: made.by_hand(beta, identity=True, add=add).outputs[1] for add in ("c", "d", "cd")}
    u_b = torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    both = torch.tensor([0.0, 1.0, -1.0, 0.0], dtype=torch.float64)
    u_a = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    nearest = min(float((c - u_b).norm()) for c in added.values())
    figures = {
        "β": beta,
        "c2 in u_a..u_d": good[1],
        "c1 in u_a..u_d": good[0],
        "with Q = K = V = I, c2": same[1],
        "c2 with u_c, u_d or both added to x2": dict(added),
    }
    return CheckResult(
        figures,
        {
            "c2 ≈ u_b": float((good[1] - u_b).abs().max()) < 1e-6,
            "c1 ≈ u_b - u_c": float((good[0] - both).abs().max()) < 1e-6,
            "with Q = K = V = I, c2 ≈ u_a": float((same[1] - u_a).abs().max()) < 1e-6,
            "adding u_c or u_d cannot make it u_b": nearest > 0.9,
        },
        {"nearest to u_b that the additions come": nearest},
    )


CLAIMS = [
    Claim(
        "softmax-entropy",
        TOPIC,
        "exact",
        "A row's entropy can be anything from 0 to log n; what concentrates it is the margin of one score over the "
        "others.",
        "H(softmax(s)) from 0 to log n",
        any_entropy,
        "softmax always favours one component",
    ),
    Claim(
        "copying",
        TOPIC,
        "exact",
        "Attention copies v_j when k_j·q exceeds all other scores by a wide margin.",
        "α_j = 1 / (1 + (n-1) exp(-margin))",
        copies,
        "calling the scores before the softmax α",
    ),
    Claim(
        "averaging",
        TOPIC,
        "exact",
        "For orthogonal keys of equal norm q = M(k_a + k_b) reads the mean of v_a and v_b: each of the two weights is "
        "a half.",
        "c ≈ (v_a + v_b)/2, α_a ≈ α_b ≈ ½",
        averages,
        "α_a ≈ α_b ≈ 1",
    ),
    Claim(
        "one-head-fragile",
        TOPIC,
        "exact",
        "Where the length of k_a varies, one head that asks for both swings between v_a and v_b from draw to draw.",
        "k_a ~ N(μ_a, αI + ½ μ_a μ_aᵀ), q = M(μ_a + μ_b)",
        fragile,
    ),
    Claim(
        "two-heads-sturdy",
        TOPIC,
        "exact",
        "Two heads, each asking for one of them, stay near the mean. They still fail with a chance that falls with M, "
        "0.135 at n = 10 and M = 10, towards 0.079 and not to 0; and they need M√α much below 1.",
        "q_1 = Mμ_a, q_2 = Mμ_b;  P(fail) = Φ(√2(ln(n-1)/M - 1)) -> Φ(-√2)",
        sturdy,
        "always near the mean",
    ),
    Claim(
        "weights-by-hand",
        TOPIC,
        "exact",
        "With matrices set by hand x2 reads u_b and x1 reads u_b - u_c. With Q = K = V = I x2 reads itself, and no "
        "u_c or u_d added to it makes it read u_b: a vector's product with itself stays the greatest.",
        "V = (u_b u_bᵀ - u_c u_cᵀ)/β², K = I, Q = (u_d u_aᵀ + u_c u_dᵀ)/β²",
        hand_set,
    ),
]
