"""Claims about long range: copying from a few positions back and associative recall, beyond the training length.

The sizes are chosen so that attention learns each task in a few minutes. In recall, absolute positions are trained for
longer than relative ones, since they start to learn later. A model that has not learned a task at the training length
is not counted as failing beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import nn

from regard.models import gpt
from regard.theory.claim import CheckResult, Claim, Plot, is_above
from regard.theory.claims.check_helpers import difference_interval, mean_interval
from regard.theory.claims.train_small_model import (
    IGNORE_INDEX,
    Batch,
    accuracy,
    accuracy_curve,
    language_logits,
    train_model,
)

TOPIC = "long range"
LAG = 5
NUM_WORDS = 12
NUM_KEYS, NUM_VALUES = 32, 8

TaskBatch = Callable[[np.random.Generator, int, int], Batch]
"""Maps a generator, a text length and a batch size to ids and targets."""


def copying_batch(rng: np.random.Generator, length: int, size: int) -> Batch:
    """Random words; the target at each position is the word LAG positions earlier."""
    ids = torch.from_numpy(rng.integers(0, NUM_WORDS, (size, length)))
    targets = torch.full_like(ids, IGNORE_INDEX)
    targets[:, LAG:] = ids[:, :-LAG]
    return ids, targets


def recall_batch(rng: np.random.Generator, length: int, size: int) -> Batch:
    """key value key value ...: the target at a key that occurred before is its value.

    Keys are ids 0..31, values 32..39. A text has half as many keys as pairs, each with one value.
    """
    num_pairs = length // 2
    num_keys = max(2, num_pairs // 2)
    rows = np.arange(size)[:, None]
    keys = np.argsort(rng.random((size, NUM_KEYS)), 1)[:, :num_keys]
    values = rng.integers(NUM_KEYS, NUM_KEYS + NUM_VALUES, (size, num_keys))
    index = rng.integers(0, num_keys, (size, num_pairs))
    ids = np.empty((size, 2 * num_pairs), np.int64)
    ids[:, ::2], ids[:, 1::2] = keys[rows, index], values[rows, index]
    repeated = (index[:, :, None] == index[:, None, :]) & np.tri(num_pairs, k=-1, dtype=bool)
    targets = np.full_like(ids, IGNORE_INDEX)
    targets[:, ::2] = np.where(repeated.any(-1), values[rows, index], IGNORE_INDEX)
    return torch.from_numpy(ids), torch.from_numpy(targets)


def train_gpt(
    task: TaskBatch, mechanism: str, positions: str, *, max_length: int, seed: int, steps: int, size: int
) -> nn.Module:
    """Train a small GPT on texts of random lengths up to `max_length`."""
    rng = np.random.default_rng(seed)
    min_length = LAG + 2 if task is copying_batch else 8

    def build() -> nn.Module:
        model = gpt.GPT(NUM_KEYS + NUM_VALUES, dim=48, layers=2, heads=2, mechanism=mechanism, positions=positions)
        nn.init.normal_(model.embed.weight, std=0.3)  # next to sinusoidal positions, std 0.02 would be too small
        return model

    return train_model(
        build,
        lambda step: task(rng, int(rng.integers(min_length, max_length + 1)), size),
        steps=steps,
        seed=seed,
        lr=3e-3,
        logits=language_logits,
    )


POSITIONS = {
    "relative": ("relative:clip=8", "none"),
    "absolute, learned": ("dot", "learned:length=160"),
    "absolute, sinusoidal": ("dot", "sinusoidal"),
}
"""Mechanism and positions of the compared models."""


def compare_positions(
    task: TaskBatch, seed: int, steps: Mapping[str, int], max_length: int, title: str, size: int = 32
) -> CheckResult:
    """Compare relative with absolute positions at up to eight times the training length; `steps` by name."""
    lengths = [max_length, 2 * max_length, 4 * max_length, 8 * max_length]
    rows: dict[str, list[list[float]]] = {name: [] for name in POSITIONS}
    for name, (mechanism, positions) in POSITIONS.items():
        for s in range(seed, seed + 3):
            model = train_gpt(task, mechanism, positions, max_length=max_length, seed=s, steps=steps[name], size=size)
            rng = np.random.default_rng(10_000 + s)
            rows[name].append([accuracy(model, *task(rng, n, 128), logits=language_logits) for n in lengths])
    curves = {name: accuracy_curve(name, rows[name], lengths) for name in POSITIONS}
    longest = {name: [row[-1] for row in rows[name]] for name in POSITIONS}
    gains = {name: difference_interval(longest["relative"], longest[name]) for name in POSITIONS if name != "relative"}
    at_train_length = {name: mean_interval([row[0] for row in rows[name]]) for name in POSITIONS}
    return CheckResult(
        {
            "lengths": lengths,
            "steps": dict(steps),
            **{f"accuracy, {name}": curve["y"] for name, curve in curves.items()},
            "gain of relative at eight times the length": {name: list(gain) for name, gain in gains.items()},
        },
        {
            "relative positions have learned the task": is_above(*at_train_length["relative"][1:], 0.5),
            **{
                f"better than {name} at eight times the length": is_above(low, high, 0.0)
                if at_train_length[name][1] > 0.5
                else None
                for name, (_, low, high) in gains.items()
            },
        },
        {"accuracy of learned positions at eight times the length": curves["absolute, learned"]["y"][-1]},
        (Plot(f"{title}, trained on up to {max_length} positions", "length", "accuracy", list(curves.values()), "x"),),
    )


def check_relative_copying(seed: int) -> CheckResult:
    return compare_positions(
        copying_batch, seed, dict.fromkeys(POSITIONS, 1200), 16, f"Copying from {LAG} positions back"
    )


def check_relative_recall(seed: int) -> CheckResult:
    steps = {"relative": 600, "absolute, learned": 2400, "absolute, sinusoidal": 2400}
    return compare_positions(recall_batch, seed, steps, 16, "Associative recall", 64)


def check_synthesizer_recall(seed: int) -> CheckResult:
    """Compare recall at the training length with and without comparing tokens, each with positions that it can use."""
    length = 16
    models = {
        "dot": ("dot", "rotary", 1200),
        "dense Synthesizer": ("synthesizer-dense:length=40", "learned:length=40", 2400),
    }
    accuracies: dict[str, list[float]] = {name: [] for name in models}
    for name, (mechanism, positions, steps) in models.items():
        for s in range(seed, seed + 3):
            model = train_gpt(recall_batch, mechanism, positions, max_length=length, seed=s, steps=steps, size=64)
            test = recall_batch(np.random.default_rng(20_000 + s), length, 500)
            accuracies[name].append(accuracy(model, *test, logits=language_logits))
    _, low, high = difference_interval(accuracies["dot"], accuracies["dense Synthesizer"])
    return CheckResult(
        {
            "steps": {name: steps for name, (_, _, steps) in models.items()},
            "accuracy": accuracies,
            "chance": 1 / NUM_VALUES,
            "difference": [low, high],
        },
        {"clearly below dot attention": is_above(low, high, 0.05)},
        {f"{name}, mean": sum(accuracies[name]) / 3 for name in ("dense Synthesizer", "dot")},
    )


UNTESTED = "relative positions adapt (without a test)"
CLAIMS = [
    Claim(
        "relative-copying",
        TOPIC,
        "trained",
        "On copying from a few positions back, at eight times the training length, relative positions are better than "
        "absolute ones.",
        "predict w[t - 5] at t",
        check_relative_copying,
        UNTESTED,
    ),
    Claim(
        "relative-recall",
        TOPIC,
        "trained",
        "On recalling the value of a key, at eight times the training length, relative positions are better than "
        "absolute ones.",
        "k1 v1 k2 v2 ... k1: predict v1",
        check_relative_recall,
        UNTESTED,
    ),
    Claim(
        "synthesizer-recall",
        TOPIC,
        "trained",
        "On recall a dense Synthesizer, which compares no tokens, is clearly below dot attention.",
        "k1 v1 ... k1: predict v1",
        check_synthesizer_recall,
        "the Synthesizer is better than dot attention there",
    ),
]
