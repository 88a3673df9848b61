"""A trained translator in Python: translate, align, evaluate."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from regard.data import parallel_text
from regard.data.tokenizer import EOS, SPECIAL_TOKENS, Tokenizer
from regard.decoding import BatchTranslator, BeamSearch, Sampling
from regard.tasks.base_run import Run
from regard.tasks.translate.metrics import scores
from regard.tasks.translate.objective import measure

logger = logging.getLogger(__name__)

NEVER = [i for i in range(len(SPECIAL_TOKENS)) if i != EOS]
"""Special tokens are no words, so none is said; [EOS] ends a translation."""

Links = list[tuple[int, int]]


@dataclass(frozen=True)
class Translated:
    """`score` is the mean log chance of a token; `ended` says whether the translation came to its end by itself;
    `alignment` holds pairs (word of the source, word of the translation), words being what stands between spaces."""

    source: str
    text: str
    score: float
    tokens: int
    ended: bool
    cut: bool = False
    alignment: Links | None = None

    def as_dict(self) -> dict[str, Any]:
        return {k: v for k, v in asdict(self).items() if v is not None}

    def __str__(self) -> str:
        return self.text


class Translator(Run):
    """A run of `translate`."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return ("translate", "evaluate", "look")

    def batch_translator(self, precision: str = "float32") -> BatchTranslator:
        """The model with its weights prepared for decoding, once."""
        if precision not in self._translators:
            self._translators[precision] = BatchTranslator(self.model, suppress=NEVER, precision=precision)
        return self._translators[precision]

    @cached_property
    def _translators(self) -> dict[str, BatchTranslator]:
        return {}

    @property
    def most(self) -> int:
        """Tokens of a source that are read."""
        return self.settings.data.max_tokens

    def limit(self, length: int) -> int:
        """How many tokens a translation may have: as a source of this length and the training part let expect."""
        return limit(length, self.config["data"]["train"]["longest"])

    def translate(self, text: str | Sequence[str], **how: Any) -> Any:
        """A translation of a text, or of each of many; what can be said besides stands at `translate_all`."""
        return self.translate_all([text], **how)[0] if isinstance(text, str) else self.translate_all(text, **how)

    def translate_all(
        self,
        texts: Sequence[str],
        *,
        beam: int = 5,
        alpha: float = 1.0,
        sampling: Sampling | None = None,
        align: bool = False,
        limit: int | None = None,
        precision: str = "float32",
        told: Callable[[int], Any] | None = None,
    ) -> list[Translated]:
        """Translate each text, an empty one to an empty one. `beam` 1 is greedy; `sampling` draws instead; `align`
        says which words belong together; `say` is told how many sources were too long and are cut."""
        ids, cut = encode(texts, self.tokenizer, self.most)
        if cut:
            logger.info(f"{len(cut):,} of {len(texts):,} sources have more than {self.most} tokens and are cut there")
        real = [i for i, row in enumerate(ids) if len(row) > 1]
        how = sampling or BeamSearch(beam, alpha)
        found = self.batch_translator(precision).translate([ids[i] for i in real], strategy=how, max_length=limit or self.limit, on_progress=told)
        made = [Translated(text, "", 0.0, 0, True, alignment=[] if align else None) for text in texts]
        links: list[Links] = []
        if align:
            from regard.tasks.translate.alignment import alignments, said_numbers, word_numbers

            said = [one[0].ids for one in found]
            words = (
                word_numbers([texts[i] for i in real], self.tokenizer, self.most),
                said_numbers(said, self.tokenizer),
            )
            links = alignments(self, [ids[i] for i in real], said, words)
        for number, (i, said) in enumerate(zip(real, found, strict=True)):
            best, link = said[0], links[number] if align else None
            text = parallel_text.decode_line(best.ids, self.tokenizer)
            made[i] = Translated(texts[i], text, best.score, len(best.ids), best.ended, i in cut, link)
        return made

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
        told: Callable[[int], Any] | None = None,
    ) -> dict[str, Any]:
        """BLEU, chrF and TER of translations of a file against its references, with and without letter case, by
        sacrebleu; and nats a token of the references, over `loss_rows` pairs where that is not all of them. One file is
        a table with two columns. `alignments` is a file of true links (Pharaoh) between sources and references:
        `aligned` is the share that attention finds."""
        files = [data] if isinstance(data, str | Path) else list(data)
        files = files if references is None else [*files, references]
        if len(files) == 1:
            source, target = source or self.settings.data.source, target or self.settings.data.target
        texts = parallel_text.read_parallel_texts(files, source=source, target=target, keep_empty=True)
        for note in texts.notes:
            logger.info(note)
        how = {"beam": beam, "alpha": alpha, "precision": precision, "told": told}
        found = [said.text for said in self.translate_all(texts.sources, **how)]
        measured: dict[str, Any] = {"rows": len(found), "beam": beam, **scores(found, texts.targets)}
        if alignments is not None:
            from regard.tasks.translate.alignment import aligned

            measured["aligned"] = aligned(self, texts.sources, texts.targets, alignments)
        return measured | self._losses(texts)

    def _losses(self, texts: parallel_text.ParallelTexts) -> dict[str, Any]:
        """The loss and its like over the pairs that are neither without a source nor too long."""
        real = [pair for pair in zip(texts.sources, texts.targets, strict=True) if pair[0].strip()]
        kept = parallel_text.ParallelTexts(
            [source for source, _ in real], [target for _, target in real], [], texts.fingerprint
        )
        whole = parallel_text.encode_pairs(kept, self.tokenizer, max_tokens=self.most, allow_none=True)
        if whole.num_skipped:
            logger.info(
                f"{whole.num_skipped:,} of {len(texts.sources):,} pairs have a side of more than {self.most} tokens and "
                "are left out of the loss"
            )
        found = measure(self.model, whole, batch_tokens=2 * self.settings.data.batch_tokens) if len(whole) else {}
        return found if len(whole) == len(texts.sources) else {**found, "loss_rows": len(whole)}

    def look(self, text: str, **how: Any) -> Any:
        """The attention of each word of the translation to the words of the source (look_translator.look)."""
        from regard.tasks.translate.look import look

        return look(self, text, **how)


def encode(texts: Sequence[str], words: Tokenizer, most: int) -> tuple[list[list[int]], set[int]]:
    """Sources as the model reads them, each with its end, and which were cut."""
    rows = [
        list(e.ids)
        for e in words.encode_batch_raw([parallel_text.add_leading_space(t, words) if t.strip() else "" for t in texts])
    ]
    cut = {i for i, row in enumerate(rows) if len(row) > most}
    return [[*row[:most], EOS] for row in rows], cut


def limit(length: int, longest: int) -> int:
    """Tokens of a translation: training may have seen long ones of short sources, and long sources want long ones."""
    return max(2 * length + 16, 3 * longest)


def greedy(model: nn.Module, words: Tokenizer, texts: Sequence[str], most: int, longest: int) -> list[str]:
    """The likeliest word each time, for a quick look in training."""
    ids, _ = encode(texts, words, most)
    said = BatchTranslator(model, suppress=NEVER).translate(ids, strategy=BeamSearch(1), max_length=lambda n: limit(n, longest))
    return [parallel_text.decode_line(found[0].ids, words) for found in said]
