"""Predict what is at a [MASK]: tokens with their probabilities, or for a span model the span that was removed.

    masked   P(w | all tokens that are not masked)                        (models/bert.py)
    blank    P(w_t | tokens before t, tokens after t)                     (models/birnn.py)
    span     `prefix [MASK] suffix [MASK] span [EOS]`, generated causally; P(span) = Π_t P(w_t | prefix, suffix, w_<t)

With several masks each one is predicted while the others are masked, so each probability is that of one mask alone. A
blank model has never seen a [MASK] in training: its predictions are worse where masks are close together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.data.tokenizer import EOS, MASK
from regard.decoding.generation import TextGenerator, evaluation_mode
from regard.decoding.sampling import GREEDY, Sampling
from regard.errors import UserError


@dataclass(frozen=True)
class Guess:
    """Token ids that may be at a [MASK], one or a span, with their probability."""

    ids: list[int]
    probability: float


def predict_masks(
    model: nn.Module, ids: Sequence[int], *, top: int = 10, suppress: Iterable[int] = (), window: int | None = None
) -> list[list[Guess]]:
    """The most probable tokens at each [MASK], the most probable first.

    Args:
        ids: Token ids with at least one [MASK].
        top: How many tokens to return for each.
        suppress: Token ids that are not returned. The probabilities of the others do not change.
        window: How many tokens around each [MASK] the model sees.
    """
    positions = [position for position, id in enumerate(ids) if id == MASK]
    if not positions:
        raise UserError("the text has no [MASK]")
    _check_top(top)
    with evaluation_mode(model), torch.inference_mode():
        logits = torch.cat([_mask_logits(model, ids, position, window) for position in positions])
        probabilities = logits.float().softmax(-1)
        probabilities[:, sorted(set(suppress))] = 0.0
        best = probabilities.topk(min(top, probabilities.shape[-1]))
    rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [[Guess([i], p) for i, p in zip(*row, strict=True) if p > 0] for row in rows]


def _mask_logits(model: nn.Module, ids: Sequence[int], position: int, window: int | None) -> Tensor:
    """The logits of the token at one position, (1, vocab)."""
    n = len(ids) if window is None else min(window, len(ids))
    start = min(max(position - n // 2, 0), len(ids) - n)
    out = model(torch.tensor([list(ids[start : start + n])]), logits_at=torch.tensor([position - start]))
    return out[0] if isinstance(out, tuple) else out


def predict_spans(
    generator: TextGenerator,
    prefix: Sequence[int],
    suffix: Sequence[int],
    *,
    top: int = 10,
    max_new_tokens: int = 32,
    sampling: Sampling | None = None,
    suppress: Iterable[int] = (),
) -> list[Guess]:
    """The greedy span and sampled ones, at most `top`, without repetitions and the most probable first."""
    _check_top(top)
    prompt, options = [*prefix, MASK, *suffix, MASK], {"max_new_tokens": max_new_tokens, "suppress": list(suppress)}
    texts = generator.generate([prompt], sampling=GREEDY, **options)[0]
    if top > 1:
        texts += generator.generate([prompt], sampling=sampling, num_samples=top - 1, **options)[0]
    ends = {tuple(text.ids): [EOS] if text.stopped else [] for text in texts}
    guesses = [
        Guess(list(ids), sequence_probability(generator.model, prompt, [*ids, *end])) for ids, end in ends.items()
    ]
    return sorted(guesses, key=lambda guess: -guess.probability)


def sequence_probability(model: nn.Module, prompt: Sequence[int], ids: Sequence[int]) -> float:
    """P(ids | prompt) of a causal model."""
    text = torch.tensor([[*prompt, *ids]])
    positions = torch.arange(len(prompt) - 1, text.shape[1] - 1)
    with evaluation_mode(model), torch.inference_mode():
        logits = model(text[:, :-1], logits_at=positions).float()
        log_probs = logits.log_softmax(-1).gather(-1, text[0, len(prompt) :, None])
    return float(log_probs.double().sum().exp())


def _check_top(top: int) -> None:
    if top < 1:
        raise UserError(f"the number of guesses must be at least 1, got {top}")
