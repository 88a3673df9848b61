"""Claim about Synthesizers: attention weights without comparing tokens."""

from __future__ import annotations

import torch

from regard.errors import UserError
from regard.theory.claim import CheckResult, Claim
from regard.theory.claims.check_helpers import build_layer, max_difference, randn, self_attention_scores

TOPIC = "order"


def check_synthesizers(seed: int) -> CheckResult:
    """Find which inputs a row of weights depends on (by gradient), and that inputs beyond the length are rejected."""
    n, length, position = 9, 12, 4
    gradient_own, gradient_others, too_long_raises = {}, {}, {}
    for name in ("synthesizer-dense", "synthesizer-factorized-dense", "dot"):
        options = {} if name == "dot" else {"length": length}
        layer, x = build_layer(24, 2, name, seed=seed, **options), randn(1, n, 24, seed=seed + 1).requires_grad_()
        weights = self_attention_scores(layer.mechanism, x).weights()
        (grad,) = torch.autograd.grad(weights[0, :, position].pow(2).sum(), x)
        gradient_own[name] = float(grad[0, position].abs().max())
        gradient_others[name] = float(torch.cat((grad[0, :position], grad[0, position + 1 :])).abs().max())
        if name == "dot":
            continue
        try:
            layer(randn(1, length + 1, 24, seed=seed))
            too_long_raises[name] = False
        except UserError:
            too_long_raises[name] = True
    random_difference = {}
    for name in ("synthesizer-random", "synthesizer-factorized"):
        mechanism = build_layer(24, 2, name, seed=seed, length=length).mechanism
        with torch.no_grad():
            a, b = (self_attention_scores(mechanism, randn(1, n, 24, seed=seed + i)).weights() for i in (1, 2))
        random_difference[name] = max_difference(a, b)
    return CheckResult(
        {
            "gradient of a row from its own position": gradient_own,
            "gradient of a row from other positions": gradient_others,
            "difference of the weights on two texts": random_difference,
            "raises beyond its length": too_long_raises,
        },
        {
            "dense: weights depend on their own position alone": all(
                gradient_others[name] == 0 and gradient_own[name] > 0 for name in too_long_raises
            ),
            "random: weights do not depend on the input": max(random_difference.values()) == 0.0,
            "dot: weights depend on other positions": gradient_others["dot"] > 1e-6,
            "the length is limited": all(too_long_raises.values()),
        },
    )


CLAIMS = [
    Claim(
        "synthesizer",
        TOPIC,
        "exact",
        "A Synthesizer compares no tokens: a dense row of weights is computed from its own position alone, a random "
        "one is a learned parameter, and the length is limited.",
        "dense: a_i = softmax(W_2 relu(W_1 x_i));  random: a = softmax(R)",
        check_synthesizers,
    ),
]
