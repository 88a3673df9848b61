"""A trained translator: translate, align, evaluate, look."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from regard.data.parallel_text import (
    ParallelTexts,
    add_leading_space,
    decode_line,
    encode_pairs,
    read_parallel_texts,
)
from regard.data.tokenizer import EOS, SPECIAL_TOKENS, Tokenizer
from regard.decoding import BatchTranslator, BeamSearch, Sampling
from regard.tasks.base_run import Run
from regard.tasks.translate.metrics import compute_metrics
from regard.tasks.translate.objective import evaluate_pairs

if TYPE_CHECKING:
    from regard.explain.look_result import Look

logger = logging.getLogger(__name__)

SUPPRESSED_IDS = [i for i in range(len(SPECIAL_TOKENS)) if i != EOS]
"""Special tokens that a translation never contains."""

Alignment = list[tuple[int, int]]
"""Pairs (word of the source, word of the translation). Words are separated by spaces."""


@dataclass(frozen=True)
class Translation:
    """A translation.

    Attributes:
        source: The source text.
        text: The translation.
        score: Length-normalized log probability.
        tokens: Number of tokens of the translation.
        ended: Whether it ended before the length limit.
        truncated: Whether the source was truncated.
        alignment: Word alignment, if it was requested.
    """

    source: str
    text: str
    score: float
    tokens: int
    ended: bool
    truncated: bool = False
    alignment: Alignment | None = None

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        return self.text


class Translator(Run):
    """A run of `translate`."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return ("translate", "evaluate", "look")

    def batch_translator(self, precision: str = "float32") -> BatchTranslator:
        """The model with its weights converted for decoding. They are converted once for each precision."""
        if precision not in self._translators:
            self._translators[precision] = BatchTranslator(self.model, suppress=SUPPRESSED_IDS, precision=precision)
        return self._translators[precision]

    @cached_property
    def _translators(self) -> dict[str, BatchTranslator]:
        return {}

    @property
    def max_tokens(self) -> int:
        """Longer sources are truncated."""
        return self.settings.data.max_tokens

    def max_length(self, source_length: int) -> int:
        """The maximum number of tokens of a translation."""
        return max_target_length(source_length, self.config["data"]["train"]["longest"])

    def translate(self, text: str | Sequence[str], **options: Any) -> Any:
        """Translate a text, or each of several texts. `translate_all` documents the options.

        Returns:
            A Translation, or a list of them.
        """
        if isinstance(text, str):
            return self.translate_all([text], **options)[0]
        return self.translate_all(text, **options)

    def translate_all(
        self,
        texts: Sequence[str],
        *,
        beam: int = 5,
        alpha: float = 1.0,
        sampling: Sampling | None = None,
        align: bool = False,
        max_new_tokens: int | None = None,
        precision: str = "float32",
        on_progress: Callable[[int], Any] | None = None,
    ) -> list[Translation]:
        """Translate each text. The translation of an empty text is empty.

        Args:
            texts: The sources.
            beam: Beam size; 1 for greedy decoding.
            alpha: Exponent of the length in the score of beam search.
            sampling: Draw the tokens at random instead.
            align: Whether to align the words of source and translation by attention.
            max_new_tokens: Maximum number of tokens of a translation. Default: depends on the length of the source.
            precision: "float32", "float16" or "int8", for the weights.
            on_progress: Called with the number of sources of each batch when it is done.
        """
        ids, truncated = encode_sources(texts, self.tokenizer, self.max_tokens)
        if truncated:
            logger.info(f"{len(truncated):,} of {len(texts):,} sources were truncated to {self.max_tokens} tokens")
        rows = [i for i, row in enumerate(ids) if len(row) > 1]
        sources = [ids[i] for i in rows]
        hypotheses = self.batch_translator(precision).translate(
            sources,
            strategy=sampling or BeamSearch(beam, alpha),
            max_length=max_new_tokens or self.max_length,
            on_progress=on_progress,
        )
        best = [candidates[0] for candidates in hypotheses]
        alignments: list[Alignment | None] = [None] * len(rows)
        if align:
            from regard.tasks.translate.alignment import align_pairs, target_word_ids, text_word_ids

            targets = [hypothesis.ids for hypothesis in best]
            source_words = text_word_ids([texts[i] for i in rows], self.tokenizer, self.max_tokens)
            alignments[:] = align_pairs(self, sources, targets, source_words, target_word_ids(targets, self.tokenizer))
        translations = [Translation(text, "", 0.0, 0, True, alignment=[] if align else None) for text in texts]
        for i, hypothesis, alignment in zip(rows, best, alignments, strict=True):
            text = decode_line(hypothesis.ids, self.tokenizer)
            translations[i] = Translation(
                texts[i], text, hypothesis.score, len(hypothesis.ids), hypothesis.ended, i in truncated, alignment
            )
        return translations

    def evaluate(
        self,
        data: str | Path | Sequence[str | Path],
        references: str | Path | None = None,
        *,
        source: str | None = None,
        target: str | None = None,
        beam: int = 5,
        alpha: float = 1.0,
        precision: str = "float32",
        alignments: str | Path | None = None,
        on_progress: Callable[[int], Any] | None = None,
    ) -> dict[str, Any]:
        """Translate a file and compute the metrics against its references.

        Args:
            data: A file of sources, or a table with two columns.
            references: The file of references, if `data` is not a table.
            source: Source column of the table. Default: as in training.
            target: Target column of the table. Default: as in training.
            beam: Beam size.
            alpha: Exponent of the length in the score.
            precision: Precision of the weights.
            alignments: File of reference alignments in the Pharaoh format, `0-0 1-2` on each line.
            on_progress: Called with the number of sources of each batch when it is done.

        Returns:
            BLEU, chrF and TER with and without letter case; loss per token of the references ("loss_rows" pairs, where
            some are too long); "aligned", the fraction of the reference alignments that attention finds.
        """
        files = [data] if isinstance(data, str | Path) else list(data)
        files = files if references is None else [*files, references]
        if len(files) == 1:
            source, target = source or self.settings.data.source, target or self.settings.data.target
        pairs = read_parallel_texts(files, source=source, target=target, keep_empty=True)
        for note in pairs.notes:
            logger.info(note)
        translations = self.translate_all(
            pairs.sources, beam=beam, alpha=alpha, precision=precision, on_progress=on_progress
        )
        texts = [translation.text for translation in translations]
        metrics: dict[str, Any] = {"rows": len(texts), "beam": beam, **compute_metrics(texts, pairs.targets)}
        if alignments is not None:
            from regard.tasks.translate.alignment import alignment_recall

            metrics["aligned"] = alignment_recall(self, pairs.sources, pairs.targets, alignments)
        return metrics | self._evaluate_loss(pairs)

    def _evaluate_loss(self, pairs: ParallelTexts) -> dict[str, Any]:
        """Loss, perplexity and accuracy on the pairs whose source is not empty and that are not too long."""
        rows = [pair for pair in zip(pairs.sources, pairs.targets, strict=True) if pair[0].strip()]
        not_empty = ParallelTexts([s for s, _ in rows], [t for _, t in rows], [], pairs.fingerprint)
        encoded = encode_pairs(not_empty, self.tokenizer, max_tokens=self.max_tokens, allow_none=True)
        if encoded.num_skipped:
            logger.info(
                f"{encoded.num_skipped:,} of {len(pairs.sources):,} pairs have a side of more than {self.max_tokens} "
                "tokens and are left out of the loss"
            )
        batch_tokens = 2 * self.settings.data.batch_tokens
        metrics = evaluate_pairs(self.model, encoded, batch_tokens=batch_tokens) if len(encoded) else {}
        return metrics if len(encoded) == len(pairs.sources) else {**metrics, "loss_rows": len(encoded)}

    def build_evaluation(self, files: Sequence[str | Path], rows: int) -> Callable[[], dict[str, float]]:
        """A function that computes loss and accuracy on the first pairs, for the importance of heads."""
        data = self.settings.data
        pairs = read_parallel_texts(list(files), source=data.source, target=data.target, keep_empty=True)
        first = replace(pairs, sources=pairs.sources[:rows], targets=pairs.targets[:rows])
        encoded = encode_pairs(first, self.tokenizer, max_tokens=self.max_tokens)

        def evaluate() -> dict[str, float]:
            metrics = evaluate_pairs(self.model, encoded, batch_tokens=2 * data.batch_tokens)
            return {name: metrics[name] for name in ("loss", "accuracy")}

        return evaluate

    def look(
        self,
        text: str,
        *,
        label: str | None = None,
        faithful: bool = True,
        what_if: Sequence[Any] = (),
        beam: int = 5,
    ) -> Look:
        """Show the attention of each translated word to the source.

        Args:
            text: The source.
            label: Not supported: a translator has no classes.
            faithful: Whether to measure faithfulness.
            what_if: Interventions (regard.explain.interventions).
            beam: Beam size.
        """
        from regard.tasks.translate.look import look

        return look(self, text, label=label, faithful=faithful, what_if=what_if, beam=beam)


def encode_sources(texts: Sequence[str], tokenizer: Tokenizer, max_tokens: int) -> tuple[list[list[int]], set[int]]:
    """Encode sources, each with [EOS] at its end.

    Returns:
        The token ids, and the indices of the sources that were truncated.
    """
    lines = [add_leading_space(text, tokenizer) if text.strip() else "" for text in texts]
    rows = [list(encoding.ids) for encoding in tokenizer.encode_batch_raw(lines)]
    truncated = {i for i, row in enumerate(rows) if len(row) > max_tokens}
    return [[*row[:max_tokens], EOS] for row in rows], truncated


def max_target_length(source_length: int, longest: int) -> int:
    """The maximum number of tokens of a translation: enough for a long source, and for the longest training target."""
    return max(2 * source_length + 16, 3 * longest)


def translate_greedily(
    model: nn.Module, tokenizer: Tokenizer, texts: Sequence[str], max_tokens: int, longest: int
) -> list[str]:
    """Greedy translations, for an evaluation during training.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        texts: The sources.
        max_tokens: Longer sources are truncated.
        longest: Tokens of the longest training target.
    """
    ids, _ = encode_sources(texts, tokenizer, max_tokens)
    hypotheses = BatchTranslator(model, suppress=SUPPRESSED_IDS).translate(
        ids, strategy=BeamSearch(1), max_length=lambda length: max_target_length(length, longest)
    )
    return [decode_line(candidates[0].ids, tokenizer) for candidates in hypotheses]
