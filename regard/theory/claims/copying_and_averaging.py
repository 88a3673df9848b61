"""Claims about what one head and two heads can do: copying, averaging, robustness, and weights set by hand."""

from __future__ import annotations

import math

import torch

from regard.theory.claim import CheckResult, Claim, Plot, is_above
from regard.theory.claims.check_helpers import entropy, randn, softmax_rows
from regard.theory.claims.hand_set_attention import (
    NUM_SAMPLES,
    averaging_weights,
    copying_weights,
    failure_probability,
    hand_set_layer,
    margin_for_entropy,
    one_head,
    two_heads,
    weight_by_margin,
)

TOPIC = "constructions"


def check_any_entropy(seed: int) -> CheckResult:
    n = 20
    max_entropy = math.log(n)
    targets = [fraction * max_entropy for fraction in (0.02, 0.25, 0.5, 0.75, 0.98)]
    margins = [margin_for_entropy(target, n) for target in targets]
    entropies = [float(entropy(copying_weights(margin, n))) for margin in margins]
    uniform_entropy = float(entropy(softmax_rows(torch.zeros(n, dtype=torch.float64))))
    peaked_entropy = float(entropy(copying_weights(60.0, n)))
    xs = [i / 4 for i in range(0, 49)]
    return CheckResult(
        {
            "log n": max_entropy,
            "target entropy": targets,
            "margin": margins,
            "measured entropy": entropies,
            "entropy at margin 60": peaked_entropy,
        },
        {
            "every entropy in between": max(abs(a - b) for a, b in zip(targets, entropies, strict=True)) < 1e-9,
            "the maximum is log n": abs(uniform_entropy - max_entropy) < 1e-12,
            "the minimum is 0": peaked_entropy < 1e-9,
            "a larger margin lowers the entropy": margins == sorted(margins, reverse=True),
        },
        {"largest weight of equal scores": 1 / n},
        (
            Plot(
                "Entropy of a row of 20 weights, and its largest weight",
                "margin of one score over the others",
                "nats; weight",
                [
                    {"name": "entropy", "x": xs, "y": [float(entropy(copying_weights(x, n))) for x in xs]},
                    {"name": "largest weight", "x": xs, "y": [weight_by_margin(x, n) for x in xs]},
                ],
            ),
        ),
    )


def check_copying(seed: int) -> CheckResult:
    n, margins = 10, (0.0, 2.0, 5.0, 10.0, 20.0)
    weights = [float(copying_weights(margin, n)[0]) for margin in margins]
    expected = [weight_by_margin(margin, n) for margin in margins]
    values = randn(n, 7, seed=seed)
    output_error = float((copying_weights(margins[-1], n) @ values - values[0]).abs().max())
    formula_error = max(abs(a - b) for a, b in zip(weights, expected, strict=True))
    return CheckResult(
        {
            "margin": margins,
            "weight": weights,
            "1 / (1 + (n-1) exp(-margin))": expected,
            "output, difference from v_j": output_error,
        },
        {
            "the weight is that function of the margin": formula_error < 1e-12,
            "a wide margin copies": output_error < 1e-6 and weights[-1] > 1 - 1e-6,
            "no margin does not copy": abs(weights[0] - 1 / n) < 1e-12,
        },
        {"score before the softmax at margin 5": 5.0, "weight after the softmax": weights[2]},
    )


def check_averaging(seed: int) -> CheckResult:
    n, scale = 10, 30.0
    weights = averaging_weights(scale, n)
    values = randn(n, 7, seed=seed)
    output_error = float((weights @ values - (values[0] + values[1]) / 2).abs().max())
    return CheckResult(
        {
            "weights of a and b": weights[:2],
            "sum of all other weights": float(weights[2:].sum()),
            "output, difference from the mean": output_error,
        },
        {
            "(v_a + v_b) / 2": output_error < 1e-9,
            "each weight is ½": float((weights[:2] - 0.5).abs().max()) < 1e-9,
        },
        {"sum of both weights if each were 1": 2.0, "sum of a row": float(weights.sum())},
    )


def _histogram(name: str, values: torch.Tensor) -> dict:
    """Return the relative frequencies of 40 bins in [0, 1] as a curve."""
    edges = torch.linspace(0, 1, 41, dtype=torch.float64)
    counts = torch.histogram(values.clamp(0, 1), edges).hist
    return {"name": name, "x": ((edges[:-1] + edges[1:]) / 2).tolist(), "y": (counts / counts.sum()).tolist()}


def check_one_head(seed: int) -> CheckResult:
    samples = one_head(30.0, seed=seed)
    weight_a = samples.coefficients[:, 0]
    extreme = float(((weight_a < 0.1) | (weight_a > 0.9)).double().mean())
    middle = float(((weight_a > 0.4) & (weight_a < 0.6)).double().mean())
    error = 1.96 * math.sqrt(max(extreme * (1 - extreme), 1e-9) / NUM_SAMPLES)
    return CheckResult(
        {
            "samples": NUM_SAMPLES,
            "mean": samples.mean,
            "variance": samples.variance,
            "fraction of samples near v_a or v_b": extreme,
            "fraction near the mean of both": middle,
        },
        {
            "the output varies between v_a and v_b": is_above(extreme - error, extreme + error, 0.8),
            "rarely near the mean": middle < 0.1,
            "both about equally often": 0.4 < samples.mean[0] < 0.6,
        },
        {},
        (
            Plot(
                "One head: weight of v_a in 10,000 samples",
                "weight of v_a",
                "fraction",
                [_histogram("one head", weight_a)],
            ),
        ),
    )


def check_two_heads(seed: int) -> CheckResult:
    n, scale = 10, 10.0
    one = one_head(scale, n, seed=seed)
    two = two_heads(scale, n, seed=seed)
    expected = failure_probability(scale, n)
    limit = 0.5 * (1 + math.erf(-1))
    scales = (5.0, 10.0, 20.0, 50.0, 200.0)
    failure_rates = [two_heads(m, n, seed=seed).failure_rate for m in scales]
    probabilities = [failure_probability(m, n) for m in scales]
    noisy = two_heads(scale, n, alpha=0.1, seed=seed)

    def within_error(rate: float, probability: float, slack: float = 0.0) -> bool:
        return abs(rate - probability) < 3 * math.sqrt(probability * (1 - probability) / NUM_SAMPLES) + slack

    rates_match = [within_error(a, b, 1e-9) for a, b in zip(failure_rates, probabilities, strict=True)]
    return CheckResult(
        {
            "samples": NUM_SAMPLES,
            "mean of two heads": two.mean,
            "variance, one head": one.variance,
            "variance, two heads": two.variance,
            "variance ratio": one.variance / two.variance,
            "failure rate": two.failure_rate,
            "Φ(√2(ln(n-1)/M - 1))": expected,
            "failure rate by M": dict(zip(scales, failure_rates, strict=True)),
            "failure probability by M": dict(zip(scales, probabilities, strict=True)),
            "Φ(-√2)": limit,
            "variance with M√α = 3.2": noisy.variance,
        },
        {
            "near (v_a + v_b)/2": abs(two.mean[1] - 0.5) < 0.01 and two.mean[0] > 0.4,
            "lower variance than one head": two.variance < one.variance / 3,
            "the failure rate matches the formula": all(rates_match) and within_error(two.failure_rate, expected),
            "the failure rate approaches Φ(-√2)": abs(probabilities[-1] - limit) < 0.01,
            "M√α must be well below 1": noisy.variance > 1.5 * two.variance,
        },
        {"failure rate of two heads": two.failure_rate},
        (
            Plot(
                "Weight of v_a in 10,000 samples, M = 10, n = 10",
                "weight of v_a",
                "fraction",
                [
                    _histogram(name, samples.coefficients[:, 0])
                    for name, samples in (("one head", one), ("two heads", two))
                ],
            ),
        ),
    )


def check_hand_set_layer(seed: int) -> CheckResult:
    beta = 6.0
    u_a, u_b, u_c, _ = torch.eye(4, dtype=torch.float64)
    outputs = hand_set_layer(beta).outputs
    identity_outputs = hand_set_layer(beta, identity=True).outputs
    with_additions = {add: hand_set_layer(beta, identity=True, add=add).outputs[1] for add in ("c", "d", "cd")}
    nearest = min(float((c2 - u_b).norm()) for c2 in with_additions.values())
    return CheckResult(
        {
            "β": beta,
            "c2 in u_a..u_d": outputs[1],
            "c1 in u_a..u_d": outputs[0],
            "c2 with Q = K = V = I": identity_outputs[1],
            "c2 with u_c, u_d or both added to x2": with_additions,
        },
        {
            "c2 ≈ u_b": float((outputs[1] - u_b).abs().max()) < 1e-6,
            "c1 ≈ u_b - u_c": float((outputs[0] - (u_b - u_c)).abs().max()) < 1e-6,
            "with Q = K = V = I, c2 ≈ u_a": float((identity_outputs[1] - u_a).abs().max()) < 1e-6,
            "adding u_c or u_d cannot make it u_b": nearest > 0.9,
        },
        {"smallest distance to u_b with additions": nearest},
    )


CLAIMS = [
    Claim(
        "softmax-entropy",
        TOPIC,
        "exact",
        "The entropy of a row can be anything from 0 to log n; it falls with the margin of one score over the others.",
        "H(softmax(s)) from 0 to log n",
        check_any_entropy,
        "softmax always favours one component",
    ),
    Claim(
        "copying",
        TOPIC,
        "exact",
        "Attention copies v_j when k_j·q exceeds all other scores by a wide margin.",
        "α_j = 1 / (1 + (n-1) exp(-margin))",
        check_copying,
        "calling the scores before the softmax α",
    ),
    Claim(
        "averaging",
        TOPIC,
        "exact",
        "For orthogonal keys of equal norm q = M(k_a + k_b) returns the mean of v_a and v_b: each of the two weights "
        "is ½.",
        "c ≈ (v_a + v_b)/2, α_a ≈ α_b ≈ ½",
        check_averaging,
        "α_a ≈ α_b ≈ 1",
    ),
    Claim(
        "one-head-fragile",
        TOPIC,
        "exact",
        "If the length of k_a varies, the output of one head that queries both keys jumps between v_a and v_b.",
        "k_a ~ N(μ_a, αI + ½ μ_a μ_aᵀ), q = M(μ_a + μ_b)",
        check_one_head,
    ),
    Claim(
        "two-heads-sturdy",
        TOPIC,
        "exact",
        "Two heads that query one key each stay near the mean. They still fail with a probability that falls with M, "
        "0.135 at n = 10 and M = 10, towards 0.079 and not to 0; and M√α must be well below 1.",
        "q_1 = Mμ_a, q_2 = Mμ_b;  P(fail) = Φ(√2(ln(n-1)/M - 1)) -> Φ(-√2)",
        check_two_heads,
        "always near the mean",
    ),
    Claim(
        "weights-by-hand",
        TOPIC,
        "exact",
        "With matrices set by hand the output at x2 is u_b and the output at x1 is u_b - u_c. With Q = K = V = I the "
        "output at x2 is x2 itself, and adding u_c or u_d to x2 cannot make it u_b: a vector's product with itself is "
        "the largest.",
        "V = (u_b u_bᵀ - u_c u_cᵀ)/β², K = I, Q = (u_d u_aᵀ + u_c u_dᵀ)/β²",
        check_hand_set_layer,
    ),
]
