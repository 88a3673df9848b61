"""Generate text with a language model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from regard.data.tokenizer import EOS, MASK, SPECIAL_TOKENS
from regard.decoding import Sampling
from regard.decoding.context_window import max_positions

if TYPE_CHECKING:
    from regard.tasks.language.run import LanguageModel

logger = logging.getLogger(__name__)

SUPPRESSED_IDS = [i for i in range(len(SPECIAL_TOKENS)) if i != EOS]
"""Special tokens that are never generated."""

OnText = Callable[[int, int, str], Any]
"""Called with the index of the prompt, the index of the sample, and a new piece of text."""


@dataclass(frozen=True)
class GeneratedText:
    """A continuation of a prompt. `str()` gives the prompt and the continuation.

    Attributes:
        prompt: The prompt.
        text: The continuation.
        tokens: Number of generated tokens.
        ended: Whether the model ended the text before the limit.
        window_moved: Whether the text became longer than the context of the model.
    """

    prompt: str
    text: str
    tokens: int
    ended: bool
    window_moved: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return self.prompt + self.text


def generate_texts(
    run: LanguageModel,
    prompts: Sequence[str],
    *,
    max_new_tokens: int,
    sampling: Sampling,
    num_samples: int,
    window: int,
    precision: str,
    on_text: OnText | None,
) -> list[list[GeneratedText]]:
    """Generate continuations of prompts. `LanguageModel.generate_all` documents the arguments."""
    ids = [encode_prompt(run, prompt) for prompt in prompts]
    if run.objective == "span":
        ids, max_new_tokens = _fit_span_window(run, ids, max_new_tokens, window)
    streams = {(p, s): run.detokenizer.stream(prompt) for p, prompt in enumerate(prompts) for s in range(num_samples)}
    pieces: dict[tuple[int, int], list[str]] = {key: [] for key in streams}

    def add_text(prompt: int, sample: int, text: str) -> None:
        if text:
            pieces[prompt, sample].append(text)
            if on_text is not None:
                on_text(prompt, sample, text)

    generations = run.generator(precision).generate(
        ids,
        max_new_tokens=max_new_tokens,
        sampling=sampling,
        num_samples=num_samples,
        stop_ids=stop_ids(run),
        suppress=SUPPRESSED_IDS,
        window=window,
        on_token=lambda prompt, sample, id: add_text(prompt, sample, streams[prompt, sample].add(id)),
    )
    for (prompt, sample), stream in streams.items():
        add_text(prompt, sample, stream.flush())
    return [
        [
            GeneratedText(prompts[p], "".join(pieces[p, s]), len(output.ids), output.stopped, output.window_moved)
            for s, output in enumerate(outputs)
        ]
        for p, outputs in enumerate(generations)
    ]


def encode_prompt(run: LanguageModel, prompt: str) -> list[int]:
    """Encode a prompt as training texts are encoded.

    If training had several documents, the prompt follows an [EOS], the end of another document. For a span model, which
    generates a span that was removed from the end, it is `prompt [MASK] [MASK]`.
    """
    ids = run.tokenizer.encode(prompt).ids
    if run.objective == "span":
        return [*ids, MASK, MASK]
    return [EOS, *ids] if run.config["data"]["train"].get("documents", 1) > 1 or not ids else ids


def stop_ids(run: LanguageModel) -> tuple[int, ...]:
    """The tokens that end a text. For text that is already split into words [EOS] only ends a line."""
    return () if run.tokenizer.kind == "spaces" and run.objective != "span" else (EOS,)


def _fit_span_window(
    run: LanguageModel, prompts: list[list[int]], max_new_tokens: int, window: int
) -> tuple[list[list[int]], int]:
    """Shorten prompts and the span so that the window never moves: the model must see the masks."""
    window = min(window, max_positions(run.model) or window)
    limit = min(max_new_tokens, max(1, window // 2))  # the longest span in training
    if limit < max_new_tokens:
        logger.info(
            f"a span model generates at most half of its context of {window} tokens: {limit} instead of "
            f"{max_new_tokens}"
        )
    max_prompt = max(2, window - limit)
    if any(len(prompt) > max_prompt for prompt in prompts):
        logger.info(f"a prompt does not fit into the context of {window} tokens: its beginning was truncated")
    return [prompt[-max_prompt:] for prompt in prompts], limit
