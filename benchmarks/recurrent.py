"""Recurrent translators: a training step (forward and backward) of 32 pairs of 40 words, width 256, vocabulary 8,000.

python benchmarks/recurrent.py              # about 2 minutes on 2 cores; writes benchmarks/results/recurrent.json
python benchmarks/recurrent.py --quick      # few rounds, to see that it runs; writes nothing

plain       all target steps by one fused net, attended to at once
fed         what is attended enters the state, so that steps are taken one by one; words are said after the loop
fed, slow   the same weights with the words said inside the loop, as textbooks write it
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import timing
import torch
import torch.nn.functional as F

from regard.models.rnn_translator import RNNTranslator, RNNTranslatorConfig
from regard.training.environment import prepare_process

RESULT = Path(__file__).parent / "results" / "recurrent.json"
PAIRS, WORDS, WIDTH, VOCAB = 32, 40, 256, 8000


def step(model: RNNTranslator, source: torch.Tensor, target: torch.Tensor) -> None:
    logits = model(source, target[:, :-1])
    F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten()).backward()
    model.zero_grad(set_to_none=True)


def slow_step(model: RNNTranslator, source: torch.Tensor, target: torch.Tensor) -> None:
    memory, state = model.project_source(model.encode(source))
    total = torch.zeros(())
    for t in range(WORDS):
        logits, state = model.step(target[:, t], memory, state, t)
        total = total + F.cross_entropy(logits, target[:, t + 1])
    (total / WORDS).backward()
    model.zero_grad(set_to_none=True)


def measure(rounds: int) -> dict:
    torch.manual_seed(0)
    source, target = torch.randint(6, VOCAB, (PAIRS, WORDS)), torch.randint(6, VOCAB, (PAIRS, WORDS + 1))
    result: dict = {}
    for mechanism in ("additive", "bilinear", "dot"):
        sizes = {"dim": WIDTH, "hidden": WIDTH, "mechanism": mechanism, "dropout": 0.0}
        plain, fed = (RNNTranslatorConfig(**sizes, input_feeding=feeding).build(VOCAB) for feeding in (False, True))
        work: dict[str, Callable[[], object]] = {
            "plain": lambda model=plain: step(model, source, target),
            "fed": lambda model=fed: step(model, source, target),
            "fed, slow": lambda model=fed: slow_step(model, source, target),
        }
        times = timing.in_turns(work, rounds)
        row = {"milliseconds": timing.milliseconds(times)}
        row["times as long as plain"] = {name: timing.ratio(times, name, "plain") for name in ("fed", "fed, slow")}
        result[mechanism] = row
        print(mechanism, row["milliseconds"], flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds; writes nothing")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    prepare_process()  # as training does
    found = measure(3 if given.quick else given.rounds)
    if not given.quick:
        sizes = {"pairs": PAIRS, "words": WORDS, "width": WIDTH, "vocab": VOCAB}
        RESULT.write_text(json.dumps({"sizes": sizes, **found, "machine": timing.machine()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
