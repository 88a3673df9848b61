"""Long range: copying from some places back and recalling what belongs to a key, at lengths beyond training; and recall
with and without comparing tokens.

Sizes are such that attention learns each in a few minutes. In recall absolute positions are trained for longer than
relative ones, since they begin later; whoever has not learnt a task at the length of training is not said to fail
beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.models import gpt
from regard.theory.claim import Claim, CheckResult, Plot, is_above
from regard.theory.claims.check_helpers import interval
from regard.theory.claims.train_small_model import Batch, accuracy, fit, written

TOPIC = "long range"
LAG = 5
WORDS = 12
KEYS, VALUES = 32, 8
NONE = -100


def copying(draw: np.random.Generator, length: int, size: int) -> Batch:
    """Say at each place the word LAG places before it."""
    ids = torch.from_numpy(draw.integers(0, WORDS, (size, length)))
    targets = torch.full_like(ids, NONE)
    targets[:, LAG:] = ids[:, :-LAG]
    return ids, targets


def recalling(draw: np.random.Generator, length: int, size: int) -> Batch:
    """key value key value ...: at a key that has stood there before, say its value. Keys are 0..31, values 32..39; half
    as many keys as pairs, each with one value throughout a text."""
    pairs = length // 2
    pool = max(2, pairs // 2)
    rows = np.arange(size)[:, None]
    known = np.argsort(draw.random((size, KEYS)), 1)[:, :pool]
    worth = draw.integers(KEYS, KEYS + VALUES, (size, pool))
    which = draw.integers(0, pool, (size, pairs))
    ids = np.empty((size, 2 * pairs), np.int64)
    ids[:, ::2], ids[:, 1::2] = known[rows, which], worth[rows, which]
    before = (which[:, :, None] == which[:, None, :]) & np.tri(pairs, k=-1, dtype=bool)
    targets = np.full_like(ids, NONE)
    targets[:, ::2] = np.where(before.any(-1), worth[rows, which], NONE)
    return torch.from_numpy(ids), torch.from_numpy(targets)


def model(mechanism: str, positions: str, layers: int = 2) -> Callable[[], nn.Module]:
    config = gpt.GPTConfig(dim=48, layers=layers, heads=2, mechanism=mechanism, positions=positions)

    def build() -> nn.Module:
        made = config.build(KEYS + VALUES)
        nn.init.normal_(made.embed.weight, std=0.3)  # beside sines of size one, words of 0.02 would not be seen
        return made

    return build


KINDS = {
    "relative": ("relative:clip=8", "none"),
    "absolute, learned": ("dot", "learned:length=160"),
    "absolute, sinusoidal": ("dot", "sinusoidal"),
}

Task = Callable[[np.random.Generator, int, int], Batch]


def batches(task: Task, longest: int, seed: int, size: int = 32) -> Callable[[int], Batch]:
    draw = np.random.default_rng(seed)
    least = LAG + 2 if task is copying else 8
    return lambda step: task(draw, int(draw.integers(least, longest + 1)), size)


def by_length(
    task: Task,
    mechanism: str,
    positions: str,
    *,
    longest: int,
    at: Sequence[int],
    seeds: Sequence[int],
    steps: int,
    size: int = 32,
) -> dict[str, Any]:
    """Accuracy at each length, mean and interval over seeds."""
    rows = []
    for seed in seeds:
        made = fit(
            model(mechanism, positions),
            batches(task, longest, seed, size),
            steps=steps,
            seed=seed,
            lr=3e-3,
            logits=written,
        )
        asked = np.random.default_rng(10_000 + seed)
        rows.append([accuracy(made, *task(asked, n, 128), logits=written) for n in at])
    means = [interval([row[i] for row in rows]) for i in range(len(at))]
    return {
        "x": list(at),
        "y": [m for m, _, _ in means],
        "low": [max(0.0, low) for _, low, _ in means],
        "high": [min(1.0, high) for _, _, high in means],
        "each": rows,
    }


def compared(task: Task, seed: int, steps: Mapping[str, int], longest: int, title: str, size: int = 32) -> CheckResult:
    """`steps` by the name of the kind of positions."""
    at = [longest, 2 * longest, 4 * longest, 8 * longest]
    seeds = [seed + i for i in range(3)]
    found = {
        name: by_length(task, *kind, longest=longest, at=at, seeds=seeds, steps=steps[name], size=size)
        for name, kind in KINDS.items()
    }
    far = {name: [row[-1] for row in curve["each"]] for name, curve in found.items()}
    gains = {
        name: interval([a - b for a, b in zip(far["relative"], rows, strict=True)])
        for name, rows in far.items()
        if name != "relative"
    }
    learnt = {name: interval([row[0] for row in curve["each"]]) for name, curve in found.items()}
    return CheckResult(
        {
            "lengths": at,
            "steps": dict(steps),
            **{f"accuracy, {name}": curve["y"] for name, curve in found.items()},
            "gain of relative at eight times the length": {name: list(gain) for name, gain in gains.items()},
        },
        {
            "relative positions have learnt it": is_above(*learnt["relative"][1:], 0.5),
            # Who has not learnt it at the length of training cannot be said to fail beyond it.
            **{
                f"better than {name} at eight times": is_above(low, high, 0.0) if learnt[name][1] > 0.5 else None
                for name, (_, low, high) in gains.items()
            },
        },
        {"accuracy of learned positions at eight times the length": found["absolute, learned"]["y"][-1]},
        (
            Plot(
                f"{title}, trained on up to {longest} places",
                "length",
                "accuracy",
                [{"name": name, **{k: curve[k] for k in ("x", "y", "low", "high")}} for name, curve in found.items()],
                "x",
            ),
        ),
    )


def relative_copying(seed: int) -> CheckResult:
    return compared(copying, seed, dict.fromkeys(KINDS, 1200), 16, f"Copying from {LAG} places back")


def relative_recall(seed: int) -> CheckResult:
    steps = {"relative": 600, "absolute, learned": 2400, "absolute, sinusoidal": 2400}
    return compared(recalling, seed, steps, 16, "Selective recall", 64)


def synthesized(seed: int) -> CheckResult:
    """Recall at the length of training, eight pairs: with and without comparing tokens. Each with positions that it can
    learn it with: a Synthesizer's weights come from one place, so none can be turned by a distance."""
    length, seeds = 16, [seed + i for i in range(3)]
    kinds = {
        "dot": ("dot", "rotary", 1200),
        "dense Synthesizer": ("synthesizer-dense:length=40", "learned:length=40", 2400),
    }
    reached: dict[str, list[float]] = {}
    for name, (mechanism, placed, steps) in kinds.items():
        reached[name] = []
        for s in seeds:
            made = fit(
                model(mechanism, placed),
                batches(recalling, length, s, 64),
                steps=steps,
                seed=s,
                lr=3e-3,
                logits=written,
            )
            asked = recalling(np.random.default_rng(20_000 + s), length, 500)
            reached[name].append(accuracy(made, *asked, logits=written))
    _, low, high = interval([a - b for a, b in zip(*reached.values(), strict=True)])
    return CheckResult(
        {
            "steps": {name: steps for name, (_, _, steps) in kinds.items()},
            "accuracy": reached,
            "chance": 1 / VALUES,
            "difference": [low, high],
        },
        {"clearly below dot attention": is_above(low, high, 0.05)},
        {"dense Synthesizer, mean": sum(reached["dense Synthesizer"]) / 3, "dot, mean": sum(reached["dot"]) / 3},
    )


CLAIMS = [
    Claim(
        "relative-copying",
        TOPIC,
        "trained",
        "On copying from some places back, at eight times the lengths trained on, relative positions do better than "
        "absolute ones.",
        "say w[t - 5] at t",
        relative_copying,
        "relative positions adapt, told without a test",
    ),
    Claim(
        "relative-recall",
        TOPIC,
        "trained",
        "On recalling the value of a key, at eight times the lengths trained on, relative positions do better than "
        "absolute ones.",
        "k1 v1 k2 v2 ... k1: say v1",
        relative_recall,
        "relative positions adapt, told without a test",
    ),
    Claim(
        "synthesizer-recall",
        TOPIC,
        "trained",
        "On recall a dense Synthesizer, which compares no tokens, stays clearly below dot attention.",
        "k1 v1 ... k1: say v1",
        synthesized,
        "the Synthesizer is better than dot attention there",
    ),
]
