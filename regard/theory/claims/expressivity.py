"""Claims about what attention of fixed depth can and cannot compute at all lengths, without training."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from regard.attention.positions.sinusoidal import Sinusoidal
from regard.layers.transformer_blocks import EncoderBlock, FeedForward, PreNorm
from regard.theory.claim import CheckResult, Claim, Plot
from regard.theory.claims.check_helpers import build_layer, growth_exponent, perturb, seeded, softmax_rows

TOPIC = "limits"


def check_influence(seed: int) -> CheckResult:
    """Flip one bit of n and measure the change of the output at position 0, in two random layers of soft attention."""
    dim, lengths = 16, (16, 64, 256, 1024)
    with seeded(seed):
        blocks = [
            perturb(
                EncoderBlock(build_layer(dim, 2, seed=seed + i), FeedForward(dim, 32), residual=PreNorm).double()
            ).eval()
            for i in range(2)
        ]
        embeddings = torch.randn(2, dim, dtype=torch.float64)
    positions = Sinusoidal(dim, 2)
    generator = torch.Generator().manual_seed(seed)
    means, maxima = [], []
    for n in lengths:
        bits = torch.randint(0, 2, (1, n), generator=generator)
        flips = torch.randperm(n - 1, generator=generator)[:15] + 1
        rows = bits.repeat(len(flips) + 1, 1)
        rows[torch.arange(len(flips)) + 1, flips] ^= 1
        x = positions.embed(embeddings[rows], range(n))
        with torch.no_grad():
            for block in blocks:
                x = block(x)
        changes = (x[1:, 0] - x[:1, 0]).norm(dim=-1)
        means.append(float(changes.mean()))
        maxima.append(float(changes.max()))
    exponent = growth_exponent(lengths, means)
    return CheckResult(
        {"n": lengths, "mean change of the output": means, "largest change": maxima, "exponent": exponent},
        {"the influence of one input shrinks as 1/n": -1.2 < exponent < -0.8},
        {},
        (
            Plot(
                "Change of the output when one of n bits is flipped (two layers, two heads)",
                "n",
                "‖Δ output‖",
                [
                    {"name": "mean of 15 flips", "x": list(lengths), "y": means},
                    {"name": "1/n", "x": list(lengths), "y": [means[0] * lengths[0] / n for n in lengths]},
                ],
                "xy",
            ),
        ),
    )


def hard_attention(scores: Tensor, values: Tensor, bits: Tensor) -> Tensor:
    """Run one layer of hard attention: each head returns the value at the position with the highest score.

    Args:
        scores: The score of each position and bit, (heads, n, 2).
        values: The value of each position and bit, (heads, n, 2).
        bits: (rows, n).

    Returns:
        (rows, heads).
    """
    positions = torch.arange(bits.shape[1])
    best = scores[:, positions, bits].argmax(-1)  # (heads, rows)
    return values[:, positions, bits].gather(-1, best[..., None])[..., 0].T


def check_hard_attention(seed: int) -> CheckResult:
    """Fix one bit per head, at its highest score: the output no longer depends on any other bit.

    This is the first step of the proof of Hahn 2020, section 4.
    """
    n, heads, num_networks = 12, 4, 50
    generator = torch.Generator().manual_seed(seed)
    num_constant, num_balanced, max_fixed = 0, 0, 0
    for _ in range(num_networks):
        scores = torch.randn(heads, n, 2, generator=generator)
        values = torch.randn(heads, n, 2, generator=generator)
        fixed: dict[int, int] = {}
        for h in range(heads):
            for index in scores[h].flatten().argsort(descending=True).tolist():
                position, bit = divmod(index, 2)
                if fixed.get(position, bit) == bit:  # not fixed yet, or already fixed to this bit
                    fixed[position] = bit
                    break
        max_fixed = max(max_fixed, len(fixed))
        free = [i for i in range(n) if i not in fixed]
        rows = torch.tensor(list(itertools.product((0, 1), repeat=len(free))))
        bits = torch.zeros(len(rows), n, dtype=torch.long)
        bits[:, free] = rows
        for position, bit in fixed.items():
            bits[:, position] = bit
        output = hard_attention(scores, values, bits)
        num_constant += bool((output == output[:1]).all())
        odd = bits.sum(1) % 2
        num_balanced += int(odd.sum()) * 2 == len(odd)
    return CheckResult(
        {
            "random networks": num_networks,
            "bits, heads": [n, heads],
            "largest number of fixed bits": max_fixed,
            "networks with a constant output": num_constant,
            "networks for which half of the remaining inputs are odd": num_balanced,
        },
        {
            "the output is constant on inputs of both parities": num_constant == num_networks
            and num_balanced == num_networks,
            "one fixed bit per head is enough": max_fixed <= heads,
        },
    )


def parity_attention(bits: Tensor) -> Tensor:
    """Compute PARITY with two layers of soft attention, at any length (Chiang & Cholak 2022, section 3.1).

    Layer 1 attends uniformly: k/N ones. The feed-forward layer outputs 1/N at position i = k, else 0. Layer 2 has two
    heads with scores -cos(iπ) and cos(iπ) over that marker. Their difference is positive if k is odd.

    Args:
        bits: (b, n).

    Returns:
        (b,), positive for an odd number of ones.
    """
    n = bits.shape[1] + 1  # with an extra position 0
    ones = torch.cat((torch.zeros(len(bits), 1, dtype=torch.float64), bits.double()), 1)
    positions = torch.arange(n, dtype=torch.float64)
    uniform = softmax_rows(torch.zeros(n, dtype=torch.float64))
    fraction = ones @ uniform  # k/N
    step = uniform[0]  # 1/N
    distance = fraction[:, None] - positions * step
    marker = torch.relu(distance - step) - 2 * torch.relu(distance) + torch.relu(distance + step)
    cosine = torch.cos(torch.pi * positions)
    return marker @ softmax_rows(-cosine) - marker @ softmax_rows(cosine)


def check_parity_construction(seed: int) -> CheckResult:
    """Test every text of up to 12 bits, and random ones of up to 1,000."""

    def is_correct(bits: Tensor, outputs: Tensor) -> Tensor:
        return (outputs > 0) == (bits.sum(1) % 2 == 1)

    generator = torch.Generator().manual_seed(seed)
    all_short_correct = True
    for n in range(1, 13):
        bits = torch.tensor(list(itertools.product((0, 1), repeat=n)))
        all_short_correct &= bool(is_correct(bits, parity_attention(bits)).all())
    lengths, margins, accuracies = (10, 100, 1000), [], []
    for n in lengths:
        bits = torch.randint(0, 2, (200, n), generator=generator)
        outputs = parity_attention(bits)
        accuracies.append(float(is_correct(bits, outputs).double().mean()))
        margins.append(float(outputs.abs().min()))
    exponent = growth_exponent(lengths, margins)
    return CheckResult(
        {
            "all texts of 1 to 12 bits correct": all_short_correct,
            "n": lengths,
            "accuracy": accuracies,
            "smallest margin": margins,
            "exponent of the margin": exponent,
        },
        {
            "two layers compute PARITY at all tested lengths": all_short_correct and min(accuracies) == 1.0,
            "the margin vanishes as n grows": exponent < -0.9,
        },
        {"accuracy on texts of 1,000 bits": accuracies[-1]},
    )


CLAIMS = [
    Claim(
        "influence",
        TOPIC,
        "exact",
        "With soft attention and bounded weights the influence of one input shrinks as 1/n (Hahn 2020, section 5).",
        "‖Δ output‖ = O(1/n)",
        check_influence,
    ),
    Claim(
        "hard-attention",
        TOPIC,
        "exact",
        "One layer of hard attention cannot compute PARITY: with one bit fixed per head its output is constant, while "
        "half of the remaining inputs are odd. Hahn 2020 proves it for any fixed depth, and for Dyck-2.",
        "fix the position with the highest score of each head",
        check_hard_attention,
    ),
    Claim(
        "parity-construction",
        TOPIC,
        "exact",
        "A construction with two layers of soft attention computes PARITY at every length (Chiang & Cholak 2022), with "
        "a margin that vanishes as n grows.",
        "k/N by uniform attention; a marker where i = k; two heads with scores ±cos(iπ)",
        check_parity_construction,
        "attention cannot compute PARITY",
    ),
]
