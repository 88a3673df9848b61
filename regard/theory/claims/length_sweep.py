"""Length generalization on all formal languages, with several depths, heads and positions, and an LSTM.

python -m regard.theory.claims.length_sweep --out limits.html        # about ten minutes on one idle core
python -m regard.theory.claims.length_sweep --quick                  # a small version, to test that it runs

Each result is saved as soon as its training ends (limits.json next to the page); the same command resumes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from regard.errors import UserError
from regard.pages.assets import render_document
from regard.pages.plots import line_plot
from regard.theory.claim_pages import STYLES, TEMPLATES
from regard.theory.claims import formal_languages
from regard.theory.claims.expressivity import parity_attention
from regard.theory.claims.length_generalization import (
    TEST_SEED,
    TRAIN_LENGTH,
    accuracy_by_length,
    attention_builder,
    language_batches,
    lstm_builder,
)
from regard.theory.claims.train_small_model import accuracy_curve, train_model
from regard.training import environment
from regard.training.atomic_write import replace_file

BUILDERS = {
    "attention, 1 layer": attention_builder(1, 2),
    "attention, 2 layers": attention_builder(2, 2),
    "attention, 4 layers": attention_builder(4, 2),
    "attention, 2 layers, 8 heads": attention_builder(2, 8),
    "attention, 2 layers, no positions": attention_builder(2, 2, "none"),
    "attention, 2 layers, rotary": attention_builder(2, 2, "rotary"),
    "LSTM": lstm_builder(),
}
LENGTHS = (8, 16, 32, 64)
LR, STEPS = 3e-3, 800
LSTM_LR, LSTM_STEPS = 5e-3, 1500  # an LSTM stays at chance for a while before it learns

Accuracies = dict[str, dict[str, dict[str, list[float]]]]
"""Accuracy at each length by language, model and seed."""


def run_sweep(out: Path, languages: list[str], models: list[str], seeds: int, steps: int | None = None) -> Accuracies:
    """Train every model on every language that is not in the file `out` yet, and save each result there."""
    steps_by_model = {model: steps or (LSTM_STEPS if model == "LSTM" else STEPS) for model in models}
    settings = {"steps": steps_by_model, "trained on up to": TRAIN_LENGTH, "lengths": list(LENGTHS)}
    accuracies = load_accuracies(out, settings)
    # Seeds before models, since all models train on the cached texts of one seed.
    jobs = [(language, model, seed) for language in languages for seed in range(seeds) for model in models]
    missing = [job for job in jobs if str(job[2]) not in accuracies.get(job[0], {}).get(job[1], {})]
    if len(missing) < len(jobs):
        print(f"{len(jobs) - len(missing)} of {len(jobs)} trainings are already in {out}", flush=True)
    start = time.perf_counter()
    for number, (language, name, seed) in enumerate(missing, 1):
        lr = LSTM_LR if name == "LSTM" else LR
        batches = language_batches(language, seed)
        model = train_model(BUILDERS[name], batches, steps=steps_by_model[name], seed=seed, lr=lr)
        row = accuracy_by_length(language, model, LENGTHS)
        accuracies.setdefault(language, {}).setdefault(name, {})[str(seed)] = row
        replace_file(out, (json.dumps({"settings": settings, "accuracy": accuracies}, indent=1) + "\n").encode())
        remaining = (time.perf_counter() - start) / number * (len(missing) - number)
        by_length = ", ".join(f"{n}: {y:.2f}" for n, y in zip(LENGTHS, row, strict=True))
        progress = f"{number}/{len(missing)} {language:9} {name:34} seed {seed}"
        print(f"{progress}  {by_length}  ({remaining:.0f} s left)", flush=True)
    return accuracies


def load_accuracies(out: Path, settings: dict[str, Any]) -> Accuracies:
    """Load the results of an earlier sweep. Raises if the file is something else or has other settings."""
    if not out.exists():
        return {}
    try:
        content = json.loads(out.read_text(encoding="utf-8"))
        saved_settings, accuracies = content["settings"], content["accuracy"]
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{out} is not a result of this command; choose another page with --out, or remove it"
        ) from None
    if saved_settings != settings:
        raise UserError(
            f"{out} was made with {saved_settings}, not with {settings}; choose another page with --out, or remove it"
        )
    return accuracies


def hand_set_curve(count: int = 400) -> dict[str, Any]:
    """Return the accuracy of the hand-set PARITY construction on the test texts."""
    accuracies = []
    for n in LENGTHS:
        ids, labels = formal_languages.generate("parity", n, count, seed=TEST_SEED)
        odd = parity_attention(torch.from_numpy(ids) - 1) > 0
        accuracies.append(float((odd == torch.from_numpy(labels).bool()).double().mean()))
    return {"name": "two layers set by hand", "x": list(LENGTHS), "y": accuracies}


def write_page(out: Path, *, quick: bool = False, seeds: int = 3, steps: int | None = None) -> Path:
    """Run the sweep and write a page with one plot per language, and the results as JSON next to it."""
    languages = ["parity", "dyck-1"] if quick else list(formal_languages.LANGUAGES)
    models = ["attention, 2 layers", "LSTM"] if quick else list(BUILDERS)
    seeds, steps = (2, 60) if quick else (seeds, steps)
    out.parent.mkdir(parents=True, exist_ok=True)
    accuracies = run_sweep(out.with_suffix(".json"), languages, models, seeds, steps)
    figures = []
    for language in languages:
        by_model = accuracies[language]
        curves = [
            accuracy_curve(model, [by_model[model][str(seed)] for seed in range(seeds)], LENGTHS) for model in models
        ]
        curves += [hand_set_curve()] if language == "parity" else []
        svg = line_plot(curves, x_label="length", y_label="accuracy", log="x")
        figures.append({"title": f"{language}: accuracy by length, trained on up to {TRAIN_LENGTH}", "svg": svg})
    html = render_document(
        "figures.html.j2",
        folders=(TEMPLATES,),
        css=STYLES,
        js=["hover.js"],
        title="Length generalization on formal languages",
        lead=f"Bands are 95 % intervals over {seeds} seeds. Half of all texts belong to the language.",
        figures=figures,
    )
    out.write_text(html, encoding="utf-8")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("limits.html"), help="the page [limits.html]")
    parser.add_argument("--quick", action="store_true", help="two languages, two models and 60 steps")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each model [3]")
    parser.add_argument("--steps", type=int, help=f"steps of each training [{STEPS}, for an LSTM {LSTM_STEPS}]")
    args = parser.parse_args()
    try:
        with environment.process_environment():
            page = write_page(args.out, quick=args.quick, seeds=args.seeds, steps=args.steps)
    except UserError as problem:
        sys.exit(f"error: {problem}")
    except KeyboardInterrupt:
        print("\nstopped; finished trainings are saved, and the same command resumes", file=sys.stderr)
        sys.exit(130)
    print(f"page: {page}")


if __name__ == "__main__":
    main()
