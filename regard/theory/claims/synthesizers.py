"""Synthesizers: weights without any comparison of tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.attention.token_positions import Places
from regard.errors import UserError
from regard.theory.claim import Claim, Found
from regard.theory.claims.check_helpers import gap, layer, noise

TOPIC = "order"


def synthesizer(seed: int) -> Found:
    """Which inputs a row of weights depends on, by gradient; and the length beyond which there are no weights."""
    n, length = 9, 12
    others, own, drawn = {}, {}, {}
    for name in ("synthesizer-dense", "synthesizer-factorized-dense", "dot"):
        how = {} if name == "dot" else {"length": length}
        made, x = layer(24, 2, name, seed=seed, **how), noise(1, n, 24, seed=seed + 1).requires_grad_()
        weights = _weights(made.mechanism, x)
        (grad,) = torch.autograd.grad(weights[0, :, 4].pow(2).sum(), x)
        own[name] = float(grad[0, 4].abs().max())
        rest = torch.cat((grad[0, :4], grad[0, 5:]))
        others[name] = float(rest.abs().max())
    refused = {}
    for name in ("synthesizer-random", "synthesizer-factorized"):
        made = layer(24, 2, name, seed=seed, length=length)
        with torch.no_grad():
            a, b = (_weights(made.mechanism, noise(1, n, 24, seed=seed + i)) for i in (1, 2))
        drawn[name] = gap(a, b)
    for name in others:
        if name != "dot":
            try:
                layer(24, 2, name, seed=seed, length=length)(noise(1, length + 1, 24, seed=seed))
                refused[name] = False
            except UserError:
                refused[name] = True
    return Found(
        {
            "gradient of a row from its own place": own,
            "gradient of a row from other places": others,
            "weights on two different texts, difference": drawn,
            "longer than its length is refused": refused,
        },
        {
            "dense: from its own place alone": all(v == 0 for k, v in others.items() if k != "dot")
            and all(v > 0 for k, v in own.items() if k != "dot"),
            "random: learned outright": max(drawn.values()) == 0.0,
            "the dot product does compare": others["dot"] > 1e-6,
            "a fixed greatest length": all(refused.values()),
        },
    )


def _weights(mechanism: Any, x: Tensor) -> Tensor:
    n = x.shape[1]
    q, (k, _) = mechanism.query(x, range(n)), mechanism.remember(x, range(n))
    return mechanism.score(q, k, Places(range(n), range(n))).weights()


CLAIMS = [
    Claim(
        "synthesizer",
        TOPIC,
        "exact",
        "In a Synthesizer no token is compared with another: dense rows of weights come from their own position alone, "
        "random ones are learned outright, and there is a greatest length.",
        "dense: a_i = softmax(W_2 relu(W_1 x_i));  random: a = softmax(R)",
        synthesizer,
    ),
]
