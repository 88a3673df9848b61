"""Closed book: generate the answer from the weights, with signals of how reliable it is."""

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

MAX_ANSWER_TOKENS = 24
SUPPRESSED_IDS = [i for i in range(len(SPECIAL_TOKENS)) if i != EOS]
BATCH_TOKENS = 8192


@dataclass(frozen=True)
class Guess:
    """A generated answer, and signals for its confidence."""

    text: str
    signals: list[float]


def generate_answers(
    model: nn.Module,
    tokenizer: Tokenizer,
    patterns: Sequence[QuestionPattern],
    names: Sequence[str],
    prompt_format: str = "name",
) -> list[str]:
    """Generate an answer to each question by greedy decoding."""
    prompts = build_prompts(patterns, names, tokenizer, prompt_format)
    return [tokenizer.decode(ids).strip() for ids in _generate_ids(model, prompts)]


def answer_questions(
    model: nn.Module,
    tokenizer: Tokenizer,
    patterns: Sequence[QuestionPattern],
    names: Sequence[str],
    prompt_format: str = "name",
) -> list[Guess]:
    """Generate answers with signals.

    The signals are the log probability of the answer and of its least likely token. If prompts start with the name,
    they also include the mean log probability of the name's tokens, and the log odds that the name is unknown.
    """
    names = list(names)
    prompts = build_prompts(patterns, names, tokenizer, prompt_format)
    answers = _generate_ids(model, prompts)
    name_ids = encode_names(list(set(names)), tokenizer)
    rows = [[*prompt, *answer, EOS] for prompt, answer in zip(prompts, answers, strict=True)]
    guesses: dict[int, Guess] = {}
    for indices in plan_batches([len(row) for row in rows], BATCH_TOKENS, seed=0, epoch=0, shuffle=False):
        ids = torch.from_numpy(pad_rows([rows[i] for i in indices])[0])
        log_probs = _log_probabilities(model, ids[:, :-1])
        token_log_probs = log_probs.gather(-1, ids[:, 1:, None])[..., 0]
        for row, i in enumerate(indices.tolist()):
            name_length, start, end = len(name_ids[names[i]]), len(prompts[i]), len(rows[i])
            answer = token_log_probs[row, start - 1 : end - 1]
            signals = [float(answer.sum()), float(answer.min())]
            if prompt_format == "name":
                name_log_prob = float(token_log_probs[row, :name_length].mean())
                signals += [name_log_prob, _log_odds(float(log_probs[row, name_length + 1, UNK]))]
            guesses[i] = Guess(tokenizer.decode(answers[i]).strip(), signals)
    return [guesses[i] for i in range(len(rows))]


@torch.no_grad()
def embed_names(
    model: nn.Module,
    tokenizer: Tokenizer,
    pattern: QuestionPattern,
    names: Sequence[str],
    prompt_format: str = "name",
) -> np.ndarray:
    """Return the hidden state after each name, normalized to length 1, (n, dim).

    If the name is within the question, it is the hidden state at the end of the question.
    """
    name_ids = encode_names(list(set(names)), tokenizer)
    if prompt_format == "name":
        rows = [[BOS, *name_ids[name], SEP] for name in names]
    else:
        rows = build_prompts([pattern] * len(names), names, tokenizer, prompt_format)
    embeddings = np.empty((len(rows), 0), np.float32)
    for indices in plan_batches([len(row) for row in rows], BATCH_TOKENS, seed=0, epoch=0, shuffle=False):
        ids, mask = pad_rows([rows[i] for i in indices])
        states = model.hidden_states(torch.from_numpy(ids))  # type: ignore[operator]
        last = states[torch.arange(len(ids)), torch.from_numpy(mask.sum(1) - 1)].numpy()
        if not embeddings.shape[1]:
            embeddings = np.empty((len(rows), last.shape[1]), np.float32)
        embeddings[indices] = last
    return embeddings / (np.linalg.norm(embeddings, axis=1, keepdims=True) + 1e-9)


@torch.no_grad()
def _log_probabilities(model: nn.Module, ids: Tensor) -> Tensor:
    logits = model(ids)
    return logits - logits.logsumexp(-1, keepdim=True)


def _log_odds(log_prob: float) -> float:
    """Return log p / (1 - p) of a log probability."""
    return log_prob - float(np.log(max(1e-9, 1 - np.exp(min(log_prob, 0.0)))))


def _generate_ids(model: nn.Module, prompts: list[list[int]]) -> list[list[int]]:
    outputs = TextGenerator(model).generate(
        prompts, max_new_tokens=MAX_ANSWER_TOKENS, sampling=GREEDY, suppress=SUPPRESSED_IDS
    )
    return [candidates[0].ids for candidates in outputs]
