"""Ask the weights alone: what a causal model says after a name and a question, how likely it finds that, and whether it
has met the name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batches import pad_rows, plan_batches
from regard.data.facts import QuestionPattern
from regard.data.paraphrase import build_prompts, encode_names
from regard.data.tokenizer import BOS, EOS, SEP, SPECIAL_TOKENS, UNK, Tokenizer
from regard.decoding import GREEDY, TextGenerator

LONGEST = 24  # tokens of an answer
NEVER = [i for i in range(len(SPECIAL_TOKENS)) if i != EOS]


@dataclass(frozen=True)
class Guess:
    """What is said, and the signals that tell how far to believe it."""

    text: str
    signals: list[float]


Asked = Sequence[QuestionPattern]


def say(model: nn.Module, words: Tokenizer, patterns: Asked, names: Sequence[str], form: str = "name") -> list[str]:
    """The likeliest answer, word by word."""
    return [words.decode(ids).strip() for ids in _written(model, build_prompts(patterns, names, words, form))]


def ask(model: nn.Module, words: Tokenizer, patterns: Asked, names: Sequence[str], form: str = "name") -> list[Guess]:
    """Answers with signals: the log chance of the answer and of its least likely token; and, where the name comes
    first, how likely it is, a token, and the odds that it is a stranger's."""
    starts = build_prompts(patterns, names, words, form)
    written = _written(model, starts)
    asked = list(names)
    known = encode_names(list(set(asked)), words)
    rows = [[*p, *ids, EOS] for p, ids in zip(starts, written, strict=True)]
    found: dict[int, Guess] = {}
    for indices in plan_batches([len(row) for row in rows], 8192, seed=0, epoch=0, shuffle=False):
        ids, _ = pad_rows([rows[i] for i in indices])
        given = torch.from_numpy(ids)
        log = _log_chances(model, given[:, :-1])
        each = log.gather(-1, given[:, 1:, None])[..., 0]
        for row, i in enumerate(indices.tolist()):
            n, start, end = len(known[asked[i]]), len(starts[i]), len(rows[i])
            answer = each[row, start - 1 : end - 1]
            signals = [float(answer.sum()), float(answer.min())]
            if form == "name":
                signals += [float(each[row, :n].mean()), _odds(float(log[row, n + 1, UNK]))]
            found[i] = Guess(words.decode(written[i]).strip(), signals)
    return [found[i] for i in range(len(rows))]


@torch.no_grad()
def represent(
    model: nn.Module, words: Tokenizer, pattern: QuestionPattern, names: Sequence[str], form: str = "name"
) -> np.ndarray:
    """What the model knows at the end of each name, (n, dim), of length one; where names stand inside the question, at
    the end of that."""
    encoded = encode_names(list(set(names)), words)
    if form == "name":
        rows = [[BOS, *encoded[name], SEP] for name in names]
    else:
        rows = build_prompts([pattern] * len(names), names, words, form)
    found = np.empty((len(rows), 0), np.float32)
    for indices in plan_batches([len(row) for row in rows], 8192, seed=0, epoch=0, shuffle=False):
        ids, mask = pad_rows([rows[i] for i in indices])
        states = model.hidden_states(torch.from_numpy(ids))  # type: ignore[operator]
        last = states[torch.arange(len(ids)), torch.from_numpy(mask.sum(1) - 1)].numpy()
        found = found if found.shape[1] else np.empty((len(rows), last.shape[1]), np.float32)
        found[indices] = last
    return found / (np.linalg.norm(found, axis=1, keepdims=True) + 1e-9)


@torch.no_grad()
def _log_chances(model: nn.Module, ids: Tensor) -> Tensor:
    logits = model(ids)
    return logits - logits.logsumexp(-1, keepdim=True)


def _odds(log: float) -> float:
    """log p / (1 - p) of a log chance."""
    return log - float(np.log(max(1e-9, 1 - np.exp(min(log, 0.0)))))


def _written(model: nn.Module, starts: list[list[int]]) -> list[list[int]]:
    return [said[0].ids for said in TextGenerator(model).generate(starts, max_new_tokens=LONGEST, sampling=GREEDY, suppress=NEVER)]
