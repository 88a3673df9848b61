"""Formal languages learnt from short texts and asked at longer ones: attention beside an LSTM.

python -m regard.verify.by_length --out limits.html        # every language, layers and heads: about an hour
python -m regard.verify.by_length --quick                  # smaller and shorter, to see that it runs
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.models import bilstm, encoder
from regard.verify import languages
from regard.verify.claim import Claim, Found, Plot, above, below
from regard.verify.learning import accuracy, fit
from regard.verify.numbers import interval

TOPIC = "limits"
TRAINED = 16
ASKED = (16, 32, 64)


def attention(layers: int = 2, heads: int = 2, positions: str = "sinusoidal", dim: int = 32) -> Callable[[], nn.Module]:
    config = encoder.Config(dim=dim, layers=layers, heads=heads, hidden=2 * dim, positions=positions, dropout=0.0)
    return lambda: config.build(6, 2)


def lstm(hidden: int = 32) -> Callable[[], nn.Module]:
    config = bilstm.Config(embed=16, hidden=hidden, pool="last", dropout=0.0)
    return lambda: config.build(6, 2)


def batches(name: str, seed: int, size: int = 64) -> Callable[[int], tuple[torch.Tensor, torch.Tensor]]:
    """Step by step texts of one length, any of those up to TRAINED; half the steps of at most half of it, which is
    what lets a recurrent net begin."""
    known = languages.lengths(name, TRAINED)
    draw = np.random.default_rng(seed)

    def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        short = [n for n in known if n <= TRAINED // 2]
        length = int(draw.choice(short if draw.random() < 0.5 else known))
        ids, labels = languages.generate(name, length, size, seed=1_000_003 * seed + step)
        return torch.from_numpy(ids), torch.from_numpy(labels)

    return batch


def asked(name: str, model: nn.Module, at: Sequence[int], count: int = 400) -> list[float]:
    """Accuracy at the nearest lengths that the language has."""
    found = []
    for n in at:
        ids, labels = languages.generate(name, languages.lengths(name, n)[-1], count, seed=987_654)
        found.append(accuracy(model, torch.from_numpy(ids), torch.from_numpy(labels)))
    return found


def curves(
    name: str,
    build: Callable[[], nn.Module],
    *,
    seeds: Sequence[int],
    steps: int,
    at: Sequence[int] = ASKED,
    lr: float = 3e-3,
) -> dict[str, Any]:
    """Mean accuracy at each length with 95 % intervals over seeds."""
    rows = [asked(name, fit(build, batches(name, s), steps=steps, seed=s, lr=lr), at) for s in seeds]
    means = [interval([row[i] for row in rows]) for i in range(len(at))]
    return {
        "x": list(at),
        "y": [m for m, _, _ in means],
        "low": [max(0.0, low) for _, low, _ in means],
        "high": [min(1.0, high) for _, _, high in means],
        "each": rows,
    }


def parity(seed: int) -> Found:
    """The same texts for both: bits of up to 16, then of 64."""
    seeds = [seed + i for i in range(3)]
    ours = curves("parity", attention(), seeds=seeds, steps=800)
    theirs = curves("parity", lstm(), seeds=seeds, steps=1500, lr=5e-3)
    far, near = [{key: c[key][i] for key in ("y", "low", "high")} for c in (ours, theirs) for i in (-1,)]
    figures = {
        "length": list(ASKED),
        "attention": ours["y"],
        "LSTM": theirs["y"],
        "each seed": [ours["each"], theirs["each"]],
    }
    return Found(
        figures,
        {
            "attention is near guessing at four times the length": below(far["low"], far["high"], 0.65),
            "an LSTM still knows": above(near["low"], near["high"], 0.8),
        },
        {"two layers set by hand are right at this length; trained ones": far["y"]},
        (
            Plot(
                "PARITY, trained on up to 16 bits",
                "length",
                "accuracy",
                [{"name": "attention", **_drawn(ours)}, {"name": "LSTM", **_drawn(theirs)}],
                "x",
            ),
        ),
    )


def _drawn(curve: dict[str, Any]) -> dict[str, Any]:
    return {key: curve[key] for key in ("x", "y", "low", "high")}


SETS = {
    "attention, 1 layer": attention(1, 2),
    "attention, 2 layers": attention(2, 2),
    "attention, 4 layers": attention(4, 2),
    "attention, 2 layers, 8 heads": attention(2, 8),
    "attention, 2 layers, no positions": attention(2, 2, "none"),
    "attention, 2 layers, rotary": attention(2, 2, "rotary"),
    "LSTM": lstm(),
}


def everything(out: Path, *, quick: bool = False, seeds: int = 5, steps: int = 3000) -> Path:
    """Each language with each model, as one page and one JSON beside it."""
    from regard.costing.drawing import plot
    from regard.report.build import HERE as REPORT
    from regard.verify.pages import HERE
    from regard.viewer.assets import document

    names = ["parity", "dyck-1"] if quick else list(languages.LANGUAGES)
    chosen = {k: SETS[k] for k in ("attention, 2 layers", "LSTM")} if quick else SETS
    seeds, steps = (2, 60) if quick else (seeds, steps)
    results: dict[str, dict[str, Any]] = {}
    for name in names:
        results[name] = {}
        for who, build in chosen.items():
            lr = 5e-3 if who == "LSTM" else 3e-3
            results[name][who] = curves(name, build, seeds=range(seeds), steps=steps, at=(8, 16, 32, 64), lr=lr)
            said = ", ".join(f"{n}: {y:.2f}" for n, y in zip((8, 16, 32, 64), results[name][who]["y"], strict=True))
            print(f"{name:10} {who:36} {said}", flush=True)
            out.with_suffix(".json").write_text(json.dumps(results) + "\n")  # what is done stays, also after Ctrl-C
    figures = [
        {
            "title": f"{name}: accuracy by length, trained on up to {TRAINED}",
            "svg": plot(
                [{"name": who, **_drawn(c)} for who, c in found.items()], x_label="length", y_label="accuracy", log="x"
            ),
        }
        for name, found in results.items()
    ]
    text = document(
        "figures.html.j2",
        folders=(HERE, REPORT),
        css=["theme.css", "text.css", "report.css", "verify.css"],
        js=["hover.js"],
        title="What can be learnt at one length and known at another",
        lead=f"Bands are 95 % intervals over {seeds} seeds. Half of all texts belong to each language.",
        figures=figures,
    )
    out.write_text(text, encoding="utf-8")
    return out


CLAIMS = [
    Claim(
        "parity-trained",
        TOPIC,
        "trained",
        "Training does not find the construction that does PARITY at all lengths: attention trained on up to 16 bits "
        "guesses at 64, where an LSTM still knows.",
        "accuracy(n) for n beyond training",
        parity,
        "attention cannot, or: attention can, so it learns to",
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("limits.html"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3000)
    given = parser.parse_args()
    print(f"page: {everything(given.out, quick=given.quick, seeds=given.seeds, steps=given.steps)}")


if __name__ == "__main__":
    main()
