"""What stands at a [MASK]: the words with their chances, or for a model of spans the stretch that was taken out.

    masked   P(w | all that is not hidden)                                (models/bert.py)
    blank    P(w_t | words before t, words after t)                       (models/birnn.py)
    span     `prefix [MASK] suffix [MASK] span [EOS]`, written causally; P(span) = Π_t P(w_t | prefix, suffix, w_<t)

With several masks each is asked while the others are hidden: the chances are those of each alone. A blank model was
never shown a [MASK], which says nothing to it: where masks stand close together its guesses are poorer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.data.tokenizer import EOS, MASK
from regard.decoding.generation import Writer, still
from regard.decoding.sampling import GREEDY, Sampling
from regard.errors import UserError


@dataclass(frozen=True)
class Guess:
    """Words that may stand there, one or a span of them, and their chance."""

    ids: list[int]
    probability: float


def words(
    model: nn.Module, ids: Sequence[int], *, top: int = 10, never: Iterable[int] = (), window: int | None = None
) -> list[list[Guess]]:
    """For each [MASK] in ids the likeliest words, the likeliest first. `never` are words that are not named; the
    chances of the others are as the model gives them. Of a long text the model sees `window` words around each."""
    places = [place for place, id in enumerate(ids) if id == MASK]
    if not places:
        raise UserError("there is no [MASK] to fill")
    _positive(top)
    with still(model), torch.inference_mode():
        chances = torch.cat([_logits(model, ids, place, window) for place in places]).float().softmax(-1)
        chances[:, sorted(set(never))] = 0.0
        best = chances.topk(min(top, chances.shape[-1]))
    rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [[Guess([i], p) for i, p in zip(found, chance, strict=True) if p > 0] for found, chance in rows]


def _logits(model: nn.Module, ids: Sequence[int], place: int, window: int | None) -> Tensor:
    """Of the word at one place, (1, vocab)."""
    n = len(ids) if window is None else min(window, len(ids))
    start = min(max(place - n // 2, 0), len(ids) - n)
    out = model(torch.tensor([list(ids[start : start + n])]), places=torch.tensor([place - start]))
    return out[0] if isinstance(out, tuple) else out


def spans(
    writer: Writer,
    prefix: Sequence[int],
    suffix: Sequence[int],
    *,
    top: int = 10,
    tokens: int = 32,
    sampling: Sampling | None = None,
    never: Iterable[int] = (),
) -> list[Guess]:
    """The span as it is written by always taking the likeliest word, and others that were drawn, `top` in all at most:
    the likeliest first, each once."""
    _positive(top)
    prompt, how = [*prefix, MASK, *suffix, MASK], {"tokens": tokens, "never": list(never)}
    found = writer.write([prompt], sampling=GREEDY, **how)[0]
    if top > 1:
        found += writer.write([prompt], sampling=sampling, samples=top - 1, **how)[0]
    ends = {tuple(text.ids): [EOS] if text.stopped else [] for text in found}
    guesses = [Guess(list(ids), chance(writer.model, prompt, [*ids, *end])) for ids, end in ends.items()]
    return sorted(guesses, key=lambda guess: -guess.probability)


def chance(model: nn.Module, prompt: Sequence[int], words: Sequence[int]) -> float:
    """P(words | prompt) by a causal model."""
    text = torch.tensor([[*prompt, *words]])
    places = torch.arange(len(prompt) - 1, text.shape[1] - 1)
    with still(model), torch.inference_mode():
        logits = model(text[:, :-1], places=places).float()
        said = logits.log_softmax(-1).gather(-1, text[0, len(prompt) :, None])
    return float(said.double().sum().exp())


def _positive(top: int) -> None:
    if top < 1:
        raise UserError(f"the number of guesses must be 1 or more; given {top}")
