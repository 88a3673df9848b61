"""Dropout: torch's own beside regard.layers.Dropout, alone and in a step of training a translator, in turns.

python benchmarks/dropout.py        # a minute; writes benchmarks/results/dropout.json
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import timing
import torch
import torch.nn.functional as F
from torch import nn

from regard.layers.dropout import Dropout
from regard.models.transformer import Transformer, TransformerConfig
from regard.training.environment import prepare_process

RESULT = Path(__file__).parent / "results" / "dropout.json"
VOCAB, BATCH, LENGTH, P = 4000, 96, 16, 0.3


def alone(kind: type[nn.Dropout]) -> Callable[[], None]:
    layer, x = kind(P), torch.randn(BATCH, LENGTH, 256, requires_grad=True)
    return lambda: layer(x).sum().backward()


def training(kind: type[nn.Dropout]) -> Callable[[], None]:
    model: Transformer = TransformerConfig(dim=128, hidden=256, layers=4, norm="pre", dropout=P).build(VOCAB)
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Dropout):
                setattr(module, name, kind(child.p))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    source, target = torch.randint(6, VOCAB, (2, BATCH, LENGTH), generator=torch.Generator().manual_seed(0))

    def step() -> None:
        F.cross_entropy(model(source, target).flatten(0, 1), target.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def main() -> None:
    prepare_process()
    kinds = {"torch": nn.Dropout, "regard": Dropout}
    found = {}
    for name, make in (("alone", alone), ("training", training)):
        times = timing.in_turns({kind: make(made) for kind, made in kinds.items()}, 15)
        found[name] = {"ms": timing.milliseconds(times), "times_as_fast": timing.ratio(times, "torch", "regard")}
        print(name, found[name])
    RESULT.write_text(json.dumps({"machine": timing.machine(), **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
