"""A trained language model in Python: evaluate, and what its objective lets it do besides."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.data import corpus
from regard.data.vocabulary import Vocabulary
from regard.decoding import Sampling, TextGenerator
from regard.decoding.text_stream import Detokenizer
from regard.errors import UserError
from regard.tasks.base_run import Run
from regard.tasks.language.fill_mask import Filled, guesses
from regard.tasks.language.generate_text import Heard, Said, generate
from regard.tasks.language.objective import build_token_objective, check_stride
from regard.tasks.language.objectives import SLIDING

logger = logging.getLogger(__name__)

VERBS = {
    "causal": ("evaluate", "generate", "look"),
    "masked": ("evaluate", "fill", "look"),
    "blank": ("evaluate", "fill"),
    "span": ("evaluate", "generate", "fill", "look"),
}
UNKNOWN = 0.01  # the share of words not known from which it is said


class LanguageModel(Run):
    """A run of `language`. `objective` says what it was taught: causal, masked, blank or span."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return VERBS[self.objective]

    @property
    def objective(self) -> str:
        return self.config["settings"]["objective"]

    @cached_property
    def detokenizer(self) -> Detokenizer:
        return Detokenizer(self.tokenizer)

    def generator(self, precision: str = "float32") -> TextGenerator:
        """The model with its weights prepared for writing, once."""
        if precision not in self._generators:
            self._generators[precision] = TextGenerator(self.model, precision=precision)
        return self._generators[precision]

    @cached_property
    def _generators(self) -> dict[str, TextGenerator]:
        return {}

    def generate(self, prompt: str = "", **how: Any) -> list[Said]:
        """Write on from a prompt; what can be said besides stands at `generate_all`."""
        return self.generate_all([prompt], **how)[0]

    def generate_all(
        self,
        prompts: Sequence[str],
        *,
        tokens: int = 128,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        n: int = 1,
        window: int | None = None,
        precision: str = "float32",
        heard: Heard | None = None,
    ) -> list[list[Said]]:
        """Write on from each prompt, n times, in one batch. The same seed writes the same, whatever the batch. `heard`
        is told the words as they become whole; `window` is how many tokens the model sees at once; `say` is told where
        a model of spans cannot write so many."""
        self._must("generate")
        return generate(
            self,
            prompts,
            tokens=tokens,
            sampling=Sampling(temperature, top_k, top_p, seed),
            samples=n,
            window=window,
            precision=precision,
            heard=heard,
        )

    def fill(self, text: str, *, top: int = 10, tokens: int = 32, seed: int = 0) -> list[list[Filled]]:
        """For each [MASK] of the text the likeliest words with their chances. A model of spans writes the one span of
        at most so many tokens that is missing."""
        self._must("fill")
        return guesses(self, text, top=top, tokens=tokens, seed=seed)

    def look(self, text: str, **how: Any) -> Any:
        """What the next word, or the one at [MASK], regards; what can be said besides stands at look_language.look."""
        from regard.tasks.language.look import look

        return look(self, text, **how)

    def _must(self, verb: str) -> None:
        if verb not in self.verbs:
            raise UserError(
                f"{self.folder or 'the model'} was taught the objective {self.objective!r}, which cannot {verb}; it "
                f"can {' and '.join(self.verbs)}. Those that can: "
                f"{', '.join(name for name, verbs in VERBS.items() if verb in verbs)}"
            )

    def evaluate(self, data: str | Path | list[str | Path], *, stride: int | None = None) -> dict[str, Any]:
        """Nats a token, perplexity and bits on files or folders of text, as on the validation part: by a window that
        moves `stride` tokens at a time. A smaller stride gives each token more to look at, and takes longer. `unknown`
        is the share of [UNK] among what is scored, where the tokenizer does not know every text."""
        with tempfile.TemporaryDirectory() as place:
            cut = self.settings.data.documents
            text = corpus.build_corpus(data, self.tokenizer, place, documents=cut, progress=False)
            found = self._measured(text, stride)
        if found.get("unknown", 0.0) > UNKNOWN:
            logger.info(
                f"{found['unknown']:.1%} of the tokens are not in the vocabulary and count as [UNK], which is easier "
                "to guess than what stood there: compare the perplexity with that of the same vocabulary only"
            )
        return found

    def perplexity(self, text: str | Sequence[str], *, stride: int | None = None) -> float:
        """Of texts as they are given; where words are missing, of these."""
        given = corpus.Corpus.from_texts(text, self.tokenizer, documents=self.settings.data.documents)
        return self._measured(given, stride)["perplexity"]

    def _measured(self, text: corpus.Corpus, stride: int | None) -> dict[str, Any]:
        block = self.settings.data.block_size
        check_stride(self.objective, stride)
        if stride is not None and not 1 <= stride <= block:
            raise UserError(f"the stride lies between 1 and the block of training, {block}, and was given {stride}")
        made = build_token_objective(self.settings, Vocabulary(self.tokenizer), stride)
        least = 1 if self.objective in SLIDING else made.length  # a sliding window can be shorter
        if text.num_tokens < least:
            raise UserError(f"the text has {text.num_tokens:,} tokens, and a window takes {least:,}; give more of it")
        shape = {"tokens": text.num_tokens, "block": block}
        if self.objective in SLIDING:
            shape["stride"] = stride or self.settings.data.stride or block
        return {**shape, **made.evaluate(self.model, text)}
