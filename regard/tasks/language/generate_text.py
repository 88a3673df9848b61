"""A language model writes: from prompts as text to what follows them as text."""

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

NEVER = [i for i in range(len(SPECIAL_TOKENS)) if i != EOS]
"""Special tokens are no words, so none is written; [EOS] ends a text."""

Heard = Callable[[int, int, str], Any]
"""Is told what has become whole: number of the prompt, number of the sample, text."""


@dataclass(frozen=True)
class Said:
    """prompt + text is the whole. `ended`: by the model, and not because there were enough tokens. `slid`: it grew
    beyond what the model sees at once."""

    prompt: str
    text: str
    tokens: int
    ended: bool
    slid: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        return self.prompt + self.text


def generate(
    run: LanguageModel,
    prompts: Sequence[str],
    *,
    tokens: int,
    sampling: Sampling,
    samples: int,
    window: int | None,
    precision: str,
    heard: Heard | None,
) -> list[list[Said]]:
    """A model sees as much at once as a window of its training held, unless told otherwise."""
    seen = window or run.settings.data.block_size
    ids = [begin(run, prompt) for prompt in prompts]
    if run.objective == "span":
        ids, tokens = _kept_in_sight(run, ids, tokens, seen)
    texts = {(p, s): run.detokenizer.stream(prompt) for p, prompt in enumerate(prompts) for s in range(samples)}
    said: dict[tuple[int, int], list[str]] = {place: [] for place in texts}

    def tell(prompt: int, sample: int, piece: str) -> None:
        if piece:
            said[prompt, sample].append(piece)
            if heard is not None:
                heard(prompt, sample, piece)

    written = run.generator(precision).generate(
        ids,
        max_new_tokens=tokens,
        sampling=sampling,
        num_samples=samples,
        stop_ids=stops(run),
        suppress=NEVER,
        window=seen,
        on_token=lambda prompt, sample, id: tell(prompt, sample, texts[prompt, sample].add(id)),
    )
    for (prompt, sample), text in texts.items():
        tell(prompt, sample, text.flush())
    return [
        [
            Said(prompts[p], "".join(said[p, s]), len(text.ids), text.stopped, text.window_moved)
            for s, text in enumerate(several)
        ]
        for p, several in enumerate(written)
    ]


def begin(run: LanguageModel, prompt: str) -> list[int]:
    """The ids to go on from. Where training saw several documents, a text begins after the [EOS] of another one. A
    model of spans writes what was taken out at the end: `prompt [MASK] [MASK]`."""
    ids = run.tokenizer.encode(prompt).ids
    if run.objective == "span":
        return [*ids, MASK, MASK]
    return [EOS, *ids] if run.config["data"]["train"].get("documents", 1) > 1 or not ids else ids


def _kept_in_sight(run: LanguageModel, rows: list[list[int]], tokens: int, window: int) -> tuple[list[list[int]], int]:
    """Prompts of a model of spans and how many tokens may follow them, such that its window never slides: the masks,
    which tell it that a span is wanted, would be lost."""
    window = min(window, max_positions(run.model) or window)
    most = min(tokens, max(1, window // 2))  # the longest span of training
    if most < tokens:
        logger.info(f"a model of spans writes half of a window of {window} tokens at most: {most} instead of {tokens}")
    room = max(2, window - most)
    if any(len(row) > room for row in rows):
        logger.info(f"a prompt is longer than a window of {window} tokens has room for: the model sees the end of it")
    return [row[-room:] for row in rows], most


def stops(run: LanguageModel) -> tuple[int, ...]:
    """Where words are what stands between spaces, [EOS] is the end of a line, and the text goes on."""
    return () if run.tokenizer.kind == "spaces" and run.objective != "span" else (EOS,)
