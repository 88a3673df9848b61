"""The same training with several seeds: tables of generated texts, and means with their intervals."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from regard.data.read_table import Table
from regard.tasks.classify.run import Classifier
from regard.tasks.train import train


def table(examples: Sequence[Any]) -> Table:
    """Of anything that has a text and a label."""
    texts, labels = [e.text for e in examples], [e.label for e in examples]
    return Table(texts, labels, [], hashlib.sha256("\n".join(texts).encode()).hexdigest(), len(texts))


def trained(model: str, examples: Sequence[Any], settings: Mapping[str, Any], seed: int) -> Classifier:
    """A run in a folder that is thrown away."""
    quiet = {"progress": False}
    with tempfile.TemporaryDirectory() as folder:
        return train(
            "classify", table(examples), model=model, out=Path(folder) / "run", seed=seed, settings=settings, **quiet
        )


def accuracy(run: Classifier, examples: Sequence[Any]) -> float:
    return run.evaluate(table(examples))["accuracy"]


def interval(values: Sequence[float]) -> dict[str, Any]:
    """The mean of the seeds with its 95 % interval (Student's t), and the values themselves."""
    found = np.asarray(values, float)
    half = 0.0
    if len(found) > 1:
        half = float(stats.t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found)))
    mean = float(found.mean())
    rounded = [round(float(v), 4) for v in found]
    return {"mean": round(mean, 4), "low": round(mean - half, 4), "high": round(mean + half, 4), "values": rounded}


def percent(found: Mapping[str, Any]) -> str:
    """A mean in percent, with what the interval adds and takes."""
    return f"{100 * found['mean']:5.1f} ± {50 * (found['high'] - found['low']):.1f} %"
