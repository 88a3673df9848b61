"""What is learnt from short texts and known at longer ones: every language, layers, heads, positions, and an LSTM.

python -m regard.theory.claims.length_sweep --out limits.html        # about ten minutes on one core that is left alone
python -m regard.theory.claims.length_sweep --quick                  # smaller and shorter, to see that it runs

Each training is written down when it ends (limits.json beside the page); the same command goes on from there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from regard.errors import UserError
from regard.pages.assets import document
from regard.pages.training_report import HERE as REPORT
from regard.theory.claim_pages import HERE
from regard.theory.claims import formal_languages
from regard.theory.claims.expressivity import parity as by_hand
from regard.theory.claims.length_generalization import TRAINED, asked, attention, batches, drawn, lstm, over_seeds
from regard.theory.claims.train_small_model import fit
from regard.theory.cost.plots import plot
from regard.training import environment
from regard.training.atomic_write import replace

SETS = {
    "attention, 1 layer": attention(1, 2),
    "attention, 2 layers": attention(2, 2),
    "attention, 4 layers": attention(4, 2),
    "attention, 2 layers, 8 heads": attention(2, 8),
    "attention, 2 layers, no positions": attention(2, 2, "none"),
    "attention, 2 layers, rotary": attention(2, 2, "rotary"),
    "LSTM": lstm(),
}


LENGTHS = (8, 16, 32, 64)
RATE, STEPS = 3e-3, 800
FOR_LSTM = 5e-3, 1500
"""A recurrent net begins late: for a while it guesses, then it knows."""

Table = dict[str, dict[str, dict[str, list[float]]]]
"""language, model, seed: accuracy at each length."""


def trainings(names: list[str], whom: list[str], seeds: int) -> Iterator[tuple[str, str, int]]:
    """All models on the texts of one seed, then the next seed, so that the texts are made once."""
    return ((name, who, seed) for name in names for seed in range(seeds) for who in whom)


def sweep(out: Path, names: list[str], whom: list[str], seeds: int, steps: int | None = None) -> Table:
    """Train what is not yet in the file, each written down as it ends."""
    length = {who: steps or (FOR_LSTM[1] if who == "LSTM" else STEPS) for who in whom}
    settings = {"steps": length, "trained on up to": TRAINED, "lengths": list(LENGTHS)}
    table = _found(out, settings)
    every = list(trainings(names, whom, seeds))
    left = [one for one in every if str(one[2]) not in table.get(one[0], {}).get(one[1], {})]
    if len(left) < len(every):
        print(f"{len(every) - len(left)} of {len(every)} trainings are in {out} already", flush=True)
    begun = time.perf_counter()
    for number, (name, who, seed) in enumerate(left, 1):
        lr = FOR_LSTM[0] if who == "LSTM" else RATE
        model = fit(SETS[who], batches(name, seed), steps=length[who], seed=seed, lr=lr)
        row = asked(name, model, LENGTHS)
        table.setdefault(name, {}).setdefault(who, {})[str(seed)] = row
        replace(out, (json.dumps({"settings": settings, "accuracy": table}, indent=1) + "\n").encode())
        spent = time.perf_counter() - begun
        said = ", ".join(f"{n}: {y:.2f}" for n, y in zip(LENGTHS, row, strict=True))
        rest = spent / number * (len(left) - number)
        print(f"{number}/{len(left)} {name:9} {who:34} seed {seed}  {said}  ({rest:.0f} s left)", flush=True)
    return table


def _found(out: Path, settings: dict[str, Any]) -> Table:
    """What an earlier run with the same settings wrote; one with others is not to be mixed in."""
    if not out.exists():
        return {}
    try:
        kept = json.loads(out.read_text(encoding="utf-8"))
        before, table = kept["settings"], kept["accuracy"]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{out} is not a table of this command; name another page with --out, or remove it") from None
    if before != settings:
        raise UserError(
            f"{out} was made with {before}, and now it would be {settings}; name another page with --out, or remove it"
        )
    return table


def set_by_hand(count: int = 400) -> dict[str, Any]:
    """PARITY by two layers whose weights were never trained, on the texts that the trained ones are asked."""
    ys = []
    for n in LENGTHS:
        ids, labels = formal_languages.generate("parity", n, count, seed=987_654)
        odd = by_hand(torch.from_numpy(ids) - 1) > 0
        ys.append(float((odd == torch.from_numpy(labels).bool()).double().mean()))
    return {"name": "two layers set by hand", "x": list(LENGTHS), "y": ys}


def everything(out: Path, *, quick: bool = False, seeds: int = 3, steps: int | None = None) -> Path:
    """Each language with each model, as one page and one table beside it."""
    names = ["parity", "dyck-1"] if quick else list(formal_languages.LANGUAGES)
    whom = ["attention, 2 layers", "LSTM"] if quick else list(SETS)
    seeds, steps = (2, 60) if quick else (seeds, steps)
    out.parent.mkdir(parents=True, exist_ok=True)
    table = sweep(out.with_suffix(".json"), names, whom, seeds, steps)
    figures = []
    for name in names:
        rows = {who: [table[name][who][str(seed)] for seed in range(seeds)] for who in whom}
        curves = [{"name": who, **drawn(over_seeds(each, LENGTHS))} for who, each in rows.items()]
        curves += [set_by_hand()] if name == "parity" else []
        svg = plot(curves, x_label="length", y_label="accuracy", log="x")
        figures.append({"title": f"{name}: accuracy by length, trained on up to {TRAINED}", "svg": svg})
    text = document(
        "figures.html.j2",
        folders=(HERE, REPORT),
        css=["theme.css", "text.css", "report.css", "verify.css"],
        js=["hover.js"],
        title="What can be learnt at one length and known at another",
        lead=f"Bands are 95 % intervals over {seeds} seeds. Half of all texts belong to the language.",
        figures=figures,
    )
    out.write_text(text, encoding="utf-8")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("limits.html"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, help=f"of each training [{STEPS}, an LSTM {FOR_LSTM[1]}]")
    given = parser.parse_args()
    try:
        with environment.prepared():
            made = everything(given.out, quick=given.quick, seeds=given.seeds, steps=given.steps)
    except UserError as problem:
        sys.exit(f"error: {problem}")
    except KeyboardInterrupt:
        print("\nstopped; what was trained is kept, and the same command goes on from there", file=sys.stderr)
        sys.exit(130)
    print(f"page: {made}")


if __name__ == "__main__":
    main()
