"""What attention of fixed depth can and cannot do at all lengths, in what can be computed outright."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from regard.attention.positions.sinusoidal import Sinusoidal
from regard.layers.transformer_blocks import EncoderBlock, FeedForward, PreNorm
from regard.theory.claim import Claim, CheckResult, Plot
from regard.theory.claims.check_helpers import layer, seeded, shaken, slope, weigh

TOPIC = "limits"


def influence(seed: int) -> CheckResult:
    """Flip one bit of n and see how much the output at another place moves, in two drawn layers of soft attention."""
    dim, lengths = 16, (16, 64, 256, 1024)
    with seeded(seed):
        blocks = [
            shaken(EncoderBlock(layer(dim, 2, seed=seed + i), FeedForward(dim, 32), residual=PreNorm).double()).eval()
            for i in range(2)
        ]
        words = torch.randn(2, dim, dtype=torch.float64)
    place = Sinusoidal(dim, 2)
    draw = torch.Generator().manual_seed(seed)
    mean, greatest = [], []
    for n in lengths:
        bits = torch.randint(0, 2, (1, n), generator=draw)
        flips = torch.randperm(n - 1, generator=draw)[:15] + 1
        rows = bits.repeat(len(flips) + 1, 1)
        rows[torch.arange(len(flips)) + 1, flips] ^= 1
        x = place.embed(words[rows], range(n))
        with torch.no_grad():
            for block in blocks:
                x = block(x)
        moved = (x[1:, 0] - x[:1, 0]).norm(dim=-1)
        mean.append(float(moved.mean()))
        greatest.append(float(moved.max()))
    exponent = slope(lengths, mean)
    return CheckResult(
        {"n": lengths, "change of the output, mean": mean, "greatest": greatest, "exponent": exponent},
        {"one input's influence shrinks as 1/n": -1.2 < exponent < -0.8},
        {},
        (
            Plot(
                "How far one flipped bit of n moves the output (two layers, two heads)",
                "n",
                "‖Δ output‖",
                [
                    {"name": "mean of 15 flips", "x": list(lengths), "y": mean},
                    {"name": "1/n", "x": list(lengths), "y": [mean[0] * lengths[0] / n for n in lengths]},
                ],
                "xy",
            ),
        ),
    )


def hard_output(scores: Tensor, values: Tensor, bits: Tensor) -> Tensor:
    """One layer of hard attention asked from outside the text: each head reads the place with the highest score.

    scores, values (heads, n, 2), for each place and bit; bits (rows, n) -> (rows, heads)."""
    place = torch.arange(bits.shape[1])
    given = scores[:, place, bits]  # (heads, rows, n)
    best = given.argmax(-1)  # (heads, rows)
    read = values[:, place, bits].gather(-1, best[..., None])[..., 0]
    return read.T


def hard(seed: int) -> CheckResult:
    """Fix one bit a head, the one that its head likes best: the output no longer depends on any other bit (the first
    step of Hahn 2020, section 4)."""
    n, heads, nets = 12, 4, 50
    draw = torch.Generator().manual_seed(seed)
    constant, halves, most_fixed = 0, 0, 0
    for _ in range(nets):
        scores = torch.randn(heads, n, 2, generator=draw)
        values = torch.randn(heads, n, 2, generator=draw)
        fixed: dict[int, int] = {}
        for h in range(heads):
            for where in scores[h].flatten().argsort(descending=True).tolist():
                at, bit = divmod(where, 2)
                if fixed.get(at, bit) == bit:  # a place that is free, or fixed to this bit already
                    fixed[at] = bit
                    break
        most_fixed = max(most_fixed, len(fixed))
        free = [i for i in range(n) if i not in fixed]
        rows = torch.tensor(list(itertools.product((0, 1), repeat=len(free))))
        bits = torch.zeros(len(rows), n, dtype=torch.long)
        bits[:, free] = rows
        for at, bit in fixed.items():
            bits[:, at] = bit
        out = hard_output(scores, values, bits)
        constant += bool((out == out[:1]).all())
        odd = bits.sum(1) % 2
        halves += int(odd.sum()) * 2 == len(odd)
    return CheckResult(
        {
            "drawn nets": nets,
            "bits, heads": [n, heads],
            "bits that were fixed, at most": most_fixed,
            "nets whose output is then constant": constant,
            "of whose inputs exactly half are odd": halves,
        },
        {
            "hard attention is constant on a set on which PARITY is not": constant == nets and halves == nets,
            "one bit a head is enough": most_fixed <= heads,
        },
    )


def parity(bits: Tensor) -> Tensor:
    """Two layers of soft attention that tell PARITY at every length (Chiang & Cholak 2022, section 3.1).

    Layer 1, uniform: k/N ones. Feed-forward: 1/N where a place's number is k, else 0. Layer 2, two heads whose scores
    are -cos(iπ) and cos(iπ), reading that mark: their difference is positive where k is odd. bits (b, n) -> (b,).
    """
    n = bits.shape[1] + 1  # with a first place of its own, number 0
    ones = torch.cat((torch.zeros(len(bits), 1, dtype=torch.float64), bits.double()), 1)
    place = torch.arange(n, dtype=torch.float64)
    even = weigh(torch.zeros(n, dtype=torch.float64))
    share = ones @ even  # k/N
    step = even[0]  # 1/N: what a look at the first place alone reads
    far = share[:, None] - place * step
    mark = torch.relu(far - step) - 2 * torch.relu(far) + torch.relu(far + step)
    turn = torch.cos(torch.pi * place)
    return mark @ weigh(-turn) - mark @ weigh(turn)


def construction(seed: int) -> CheckResult:
    """Every text up to 12 bits, and drawn ones up to 1,000."""
    draw = torch.Generator().manual_seed(seed)
    right = True
    for n in range(1, 13):
        bits = torch.tensor(list(itertools.product((0, 1), repeat=n)))
        right &= bool(((parity(bits) > 0) == (bits.sum(1) % 2 == 1)).all())
    lengths, margins, shares = (10, 100, 1000), [], []
    for n in lengths:
        bits = torch.randint(0, 2, (200, n), generator=draw)
        said = parity(bits)
        shares.append(float(((said > 0) == (bits.sum(1) % 2 == 1)).double().mean()))
        margins.append(float(said.abs().min()))
    exponent = slope(lengths, margins)
    return CheckResult(
        {
            "all texts of 1 to 12 bits right": right,
            "n": lengths,
            "share right": shares,
            "least margin": margins,
            "exponent of the margin": exponent,
        },
        {
            "two layers do PARITY at all lengths tried": right and min(shares) == 1.0,
            "its margin vanishes as n grows": exponent < -0.9,
        },
        {"share of 1,000-bit texts right": shares[-1]},
    )


CLAIMS = [
    Claim(
        "influence",
        TOPIC,
        "exact",
        "With soft attention and bounded weights the influence of one input shrinks as 1/n (Hahn 2020, section 5).",
        "‖Δ output‖ = O(1/n)",
        influence,
    ),
    Claim(
        "hard-attention",
        TOPIC,
        "exact",
        "One layer of hard attention cannot tell PARITY: fix one bit a head and its output is constant, while half of "
        "the texts left are odd. Hahn 2020 proves it for any fixed depth, and for Dyck-2.",
        "restrict the best-liked place of each head",
        hard,
    ),
    Claim(
        "parity-construction",
        TOPIC,
        "exact",
        "A construction with two layers of soft attention does PARITY at every length (Chiang & Cholak 2022), with a "
        "margin that vanishes as n grows.",
        "k/N by uniform attention; a mark where i = k; two heads by cos(iπ)",
        construction,
        "attention cannot",
    ),
]
