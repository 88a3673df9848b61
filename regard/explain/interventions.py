"""What-if experiments: remove a word, ablate heads, make attention uniform, or use the attention of another run.

    hide:soup                       without this word, wherever it occurs (hide:#4 is the fifth word)
    ablate:layers.2:3,5             heads 3 and 5 of the layer read nothing; all heads if none are given
    uniform:layers.2                the layer attends equally to all allowed keys
    swap:runs/other:layers.2:3      the head has the attention weights of the same head of another run

The effect is the change of the score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any

import numpy as np
import torch

from regard.errors import UserError, did_you_mean
from regard.explain.explainer import Explainer
from regard.inspect import Edit, ablate, edit, find_attention_layers, record, swap, uniform

KINDS = ("hide", "ablate", "uniform", "swap")
ALL_LAYERS = ("all", "*")


@dataclass(frozen=True)
class Intervention:
    """One change of the input or of the attention.

    Attributes:
        kind: "hide", "ablate", "uniform" or "swap".
        target: The word to hide, or the layer to change.
        heads: Heads to change; all of them if None.
        source: Explainer of the run whose attention is used, on the same text.
    """

    kind: str
    target: str
    heads: tuple[int, ...] | None = None
    source: Explainer | None = None

    def __str__(self) -> str:
        layer = "all attention" if self.target in ALL_LAYERS else self.target
        heads = "" if self.heads is None else f", head{'s' * (len(self.heads) > 1)} {', '.join(map(str, self.heads))}"
        source = (self.source.folder if self.source else "") or "the other run"
        return {
            "hide": f"without “{self.target}”",
            "ablate": f"{layer}{heads} ablated",
            "uniform": f"{layer}{heads} uniform",
            "swap": f"{layer}{heads} as in {source}",
        }[self.kind]


@dataclass(frozen=True)
class InterventionResult:
    """Score (mean over the targets) before and after, and the new prediction with its probability."""

    description: str
    before: float
    after: float
    prediction: str | None
    probability: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def parse_intervention(spec: str, open_run: Callable[[str], Explainer] | None = None) -> Intervention:
    """Parse an intervention such as "ablate:layers.2:3,5"; `open_run` opens the run of "swap"."""
    kind, _, rest = spec.partition(":")
    if kind not in KINDS or not rest:
        raise UserError(
            f"expected hide:WORD, ablate:LAYER[:HEADS], uniform:LAYER[:HEADS] or swap:RUN:LAYER[:HEADS], and {spec!r} "
            "was given"
        )
    if kind == "hide":
        return Intervention(kind, rest)
    parts, source = rest.split(":"), None
    if kind == "swap":
        if len(parts) < 2 or open_run is None:
            raise UserError(f"expected swap:RUN:LAYER[:HEADS], and {spec!r} was given")
        source, parts = open_run(parts[0]), parts[1:]
    heads = None
    if len(parts) > 1:
        try:
            heads = tuple(int(head) for head in parts[1].split(","))
        except ValueError:
            raise UserError(f"expected head numbers separated by commas, and {parts[1]!r} was given") from None
    return Intervention(kind, parts[0], heads, source)


def run_interventions(
    explainer: Explainer, interventions: Sequence[Intervention], before: np.ndarray
) -> list[InterventionResult]:
    """Score each intervention alone, and last all of them together. `before` are the full scores, (targets,)."""
    groups = [[one] for one in interventions] + ([list(interventions)] if len(interventions) > 1 else [])
    results = []
    for group in groups:
        mask = np.ones(len(explainer.tokens), bool)
        for intervention in (i for i in group if i.kind == "hide"):
            mask &= ~_word_mask(explainer, intervention.target)
        with ExitStack() as stack:
            for intervention in (i for i in group if i.kind != "hide"):
                for layer in matching_layers(explainer, intervention.target):
                    stack.enter_context(edit(explainer.model, layer, _edit_fn(intervention, layer, mask)))
            after = explainer.score_masks([mask])[0]
            probabilities = explainer.probabilities() if mask.all() else {}
        description = str(group[0]) if len(group) == 1 else "all of these together"
        label = next(iter(probabilities), None)
        probability = None if label is None else probabilities[label]
        results.append(InterventionResult(description, float(before.mean()), float(after.mean()), label, probability))
    return results


def matching_layers(explainer: Explainer, name: str) -> list[str]:
    """Attention layers with this name or below it ("layers.2" for "layers.2.attention.attend")."""
    known = list(find_attention_layers(explainer.model))
    matches = [layer for layer in known if layer == name or layer.startswith(f"{name}.")]
    if not matches and name in ALL_LAYERS:
        matches = known
    if not matches:
        raise UserError(f"the model has no attention at {name!r}; {did_you_mean(name, known)}")
    return matches


def _edit_fn(intervention: Intervention, layer: str, mask: np.ndarray) -> Edit:
    heads = None if intervention.heads is None else list(intervention.heads)
    if intervention.kind == "ablate":
        return ablate(heads)
    if intervention.kind == "uniform":
        return uniform(heads)
    source = intervention.source
    assert source is not None
    indices = np.flatnonzero(mask) if len(source.tokens) == len(mask) else np.arange(len(source.tokens))
    with torch.no_grad(), record(source.model) as recording:
        source.scores([indices])
    if layer not in recording.layers:
        raise UserError(f"{source.folder or 'the other run'} has no attention at {layer!r}, so it cannot be swapped")
    return _cycle_edits([swap(call.weights, heads) for call in recording.calls_of(layer)])


def _cycle_edits(edits: Sequence[Edit]) -> Edit:
    """One edit per call, from the start again after the last: a layer may be called once per decoding step."""
    remaining = cycle(edits)
    return lambda weights, scores: next(remaining)(weights, scores)


def _word_mask(explainer: Explainer, word: str) -> np.ndarray:
    """Tokens of a word, given by its text or its number: (tokens,) bool."""
    word_ids = explainer.word_ids
    if word.startswith("#") and word[1:].isdigit():
        unique = [word_id for word_id in dict.fromkeys(word_ids) if word_id >= 0]
        if int(word[1:]) >= len(unique):
            raise UserError(f"the text has words #0 to #{len(unique) - 1}, and {word!r} was given")
        return np.array([word_id == unique[int(word[1:])] for word_id in word_ids])
    texts: dict[int, str] = {}
    for token, word_id in zip(explainer.tokens, word_ids, strict=True):
        if word_id >= 0:
            texts[word_id] = texts.get(word_id, "") + explainer.text[token["start"] : token["end"]]
    matches = {word_id for word_id, text in texts.items() if text.strip().casefold() == word.strip().casefold()}
    if not matches:
        known = [text.strip() for text in texts.values()]
        raise UserError(f"the text has no word {word!r}; {did_you_mean(word, known)}")
    return np.array([word_id in matches for word_id in word_ids])
