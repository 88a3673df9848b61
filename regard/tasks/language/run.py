"""A trained language model: evaluate, generate, fill and look, as its objective allows."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.data.corpus import Corpus, build_corpus
from regard.data.token_properties import TokenProperties
from regard.decoding import Sampling, TextGenerator
from regard.decoding.text_stream import Detokenizer
from regard.errors import UserError
from regard.explain.explainer import require_attention
from regard.tasks.base_run import Run
from regard.tasks.language.fill_mask import MaskPrediction, fill_masks
from regard.tasks.language.generate_text import GeneratedText, OnText, generate_texts
from regard.tasks.language.objective import build_token_objective, check_stride
from regard.tasks.language.objectives import SLIDING

if TYPE_CHECKING:
    from regard.explain.look_result import Look

logger = logging.getLogger(__name__)

VERBS = {
    "causal": ("evaluate", "generate", "look"),
    "masked": ("evaluate", "fill", "look"),
    "blank": ("evaluate", "fill"),
    "span": ("evaluate", "generate", "fill", "look"),
}
MAX_TOKEN_CHARACTERS = 16
UNKNOWN_LIMIT = 0.01  # a larger fraction of unknown tokens is reported


class LanguageModel(Run):
    """A run of `language`."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return VERBS[self.objective]

    @property
    def objective(self) -> str:
        """The objective it was trained with: "causal", "masked", "blank" or "span"."""
        return self.config["settings"]["objective"]

    @cached_property
    def detokenizer(self) -> Detokenizer:
        return Detokenizer(self.tokenizer)

    def generator(self, precision: str = "float32") -> TextGenerator:
        """The model with its weights converted for generation. They are converted once for each precision."""
        if precision not in self._generators:
            self._generators[precision] = TextGenerator(self.model, precision=precision)
        return self._generators[precision]

    @cached_property
    def _generators(self) -> dict[str, TextGenerator]:
        return {}

    def generate(self, prompt: str = "", **options: Any) -> list[GeneratedText]:
        """Generate continuations of a prompt. `generate_all` documents the options."""
        return self.generate_all([prompt], **options)[0]

    def generate_all(
        self,
        prompts: Sequence[str],
        *,
        max_new_tokens: int = 128,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        n: int = 1,
        window: int | None = None,
        precision: str = "float32",
        on_text: OnText | None = None,
    ) -> list[list[GeneratedText]]:
        """Generate n continuations of each prompt, in one batch.

        The result depends on the seed and the prompt, not on the other prompts of the batch.

        Args:
            prompts: The prompts.
            max_new_tokens: Maximum number of tokens to generate.
            temperature: Sampling temperature; 0 for greedy decoding.
            top_k: Sample from the k most probable tokens.
            top_p: Sample from the most probable tokens whose probabilities add up to p.
            seed: Seed of the sampling.
            n: Number of continuations of each prompt.
            window: Context length in tokens. Default: that of training.
            precision: "float32", "float16" or "int8", for the weights.
            on_text: Called with the index of the prompt, the index of the sample, and each new piece of text.
        """
        self._require("generate")
        return generate_texts(
            self,
            prompts,
            max_new_tokens=max_new_tokens,
            sampling=Sampling(temperature, top_k, top_p, seed),
            num_samples=n,
            window=window or self.settings.data.block_size,
            precision=precision,
            on_text=on_text,
        )

    def fill(self, text: str, *, top: int = 10, max_new_tokens: int = 32, seed: int = 0) -> list[list[MaskPrediction]]:
        """Predict each [MASK] of a text.

        Args:
            text: A text with one or more [MASK]; with one for a span model, which generates the missing span.
            top: How many predictions to return for each mask.
            max_new_tokens: Maximum number of tokens of a span.
            seed: Seed for sampling spans.
        """
        self._require("fill")
        return fill_masks(self, text, top=top, max_new_tokens=max_new_tokens, seed=seed)

    def look(self, text: str, *, label: str | None = None, faithful: bool = True, what_if: Sequence[Any] = ()) -> Look:
        """Show the attention for the prediction of the next token, or of the token at [MASK].

        Args:
            text: The text.
            label: The token to explain. Default: the most probable one.
            faithful: Whether to measure faithfulness.
            what_if: Interventions (regard.explain.interventions).
        """
        from regard.tasks.language.look import look

        return look(self, text, label=label, faithful=faithful, what_if=what_if)

    def evaluate(self, data: str | Path | list[str | Path], *, stride: int | None = None) -> dict[str, Any]:
        """Compute loss per token, perplexity and bits on text files or folders, as on the validation part.

        Args:
            data: Text files or folders.
            stride: How far the window moves. A smaller stride gives each token more context and takes longer.

        Returns:
            The metrics. "unknown" is the fraction of [UNK] tokens, for tokenizers that have them.
        """
        with tempfile.TemporaryDirectory() as folder:
            corpus = build_corpus(data, self.tokenizer, folder, documents=self.settings.data.documents, progress=False)
            metrics = self._evaluate_corpus(corpus, stride)
        if metrics.get("unknown", 0.0) > UNKNOWN_LIMIT:
            logger.info(
                f"{metrics['unknown']:.1%} of the tokens are not in the vocabulary and count as [UNK], which is easy "
                "to predict: compare the perplexity only with that of models with the same vocabulary"
            )
        return metrics

    def perplexity(self, text: str | Sequence[str], *, stride: int | None = None) -> float:
        """The perplexity of a text, or of several texts."""
        corpus = Corpus.from_texts(text, self.tokenizer, documents=self.settings.data.documents)
        return self._evaluate_corpus(corpus, stride)["perplexity"]

    def build_evaluation(self, files: Sequence[str | Path], rows: int) -> Callable[[], dict[str, float]]:
        """A function that computes the loss on the first `rows` thousand tokens, for the importance of heads."""
        require_attention(self.model, self.settings.model_name)
        limit = 1000 * rows
        with Path(files[0]).open(encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_TOKEN_CHARACTERS * limit)
        encoding = self.tokenizer.encode(text)
        if len(encoding.ids) > limit or len(files) > 1:
            text = text[: encoding.offsets[limit][0]] if len(encoding.ids) > limit else text
            logger.info(f"only the first {min(limit, len(encoding.ids)):,} tokens of {files[0]} are used")
        corpus = Corpus.from_texts([text], self.tokenizer, documents=self.settings.data.documents)

        def evaluate() -> dict[str, float]:
            metrics = self._evaluate_corpus(corpus, None)
            return {name: float(metrics[name]) for name in ("loss", "accuracy") if name in metrics}

        return evaluate

    def _evaluate_corpus(self, corpus: Corpus, stride: int | None) -> dict[str, Any]:
        data = self.settings.data
        check_stride(self.objective, stride)
        if stride is not None and not 1 <= stride <= data.block_size:
            raise UserError(f"the stride must be between 1 and the block size, {data.block_size}, not {stride}")
        objective = build_token_objective(self.settings, TokenProperties(self.tokenizer), stride)
        minimum = 1 if self.objective in SLIDING else objective.length  # a sliding window can be shorter
        if corpus.num_tokens < minimum:
            raise UserError(f"the text has {corpus.num_tokens:,} tokens, but a window needs {minimum:,}; use more text")
        sizes = {"tokens": corpus.num_tokens, "block_size": data.block_size}
        if self.objective in SLIDING:
            sizes["stride"] = stride or data.stride or data.block_size
        return {**sizes, **objective.evaluate(self.model, corpus)}

    def _require(self, verb: str) -> None:
        """Raise UserError if the objective does not support a verb."""
        if verb not in self.verbs:
            able = ", ".join(name for name, verbs in VERBS.items() if verb in verbs)
            raise UserError(
                f"{self.folder or 'the model'} cannot {verb}: it was trained with the objective {self.objective!r} and "
                f"can {' and '.join(self.verbs)}. Objectives that can {verb}: {able}"
            )
