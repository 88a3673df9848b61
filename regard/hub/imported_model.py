"""An imported model, or a Hugging Face folder as it is, as something that can be looked at and asked.

bert     a missing word where the text has a [MASK] (and the model its head), else the vector of the text
gpt2     the next word
marian, t5    a translation, each word the likeliest (greedy)
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.errors import UserError
from regard.explain.build import build_look
from regard.explain.explainer import Explainer
from regard.explain.interventions import Intervention
from regard.explain.look_result import Look
from regard.explain.seq2seq_explainer import Seq2SeqExplainer, TokenizedText
from regard.explain.token_explainers import EmbeddingExplainer, MaskedTokenExplainer, NextTokenExplainer, PromptText
from regard.hub import load_folder, save_folder
from regard.hub.hf_folder import Info
from regard.hub.hf_tokenizer import Reader
from regard.hub.imported_folder import SIDE, load, side_files
from regard.hub.token_loss import measuring

LONGEST = 128  # tokens of a translation


class Imported:
    """`Imported.load(folder)` opens what `regard import` wrote, or a Hugging Face folder."""

    verbs = ("look", "predict")

    def __init__(self, folder: Path, model: nn.Module, info: Info):
        self.folder, self.net, self.info = folder, model.eval(), info

    @classmethod
    def load(cls, folder: str | Path) -> Imported:
        folder = Path(folder)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if "imported" in config:
            return cls(folder, *load(folder))
        model, _, info = load_folder(folder)
        return cls(folder, model, info)

    @cached_property
    def reader(self) -> Reader:
        return Reader.of(self.folder, self.info.config)

    @property
    def most(self) -> int | None:
        """Tokens that are read at once."""
        found = self.info.config.get("max_position_embeddings") or self.info.config.get("n_positions")
        return int(found) if self.info.family in ("bert", "gpt2") and found else 512

    def look(
        self, text: str, *, label: str | None = None, faithful: bool = True, what_if: Sequence[Intervention | str] = ()
    ) -> Look:
        """As runs of our own are looked at."""
        asked, notes = self.subject(text, label)
        return build_look(asked, faithful=faithful, interventions=what_if, notes=notes)

    def predict(self, text: str) -> dict[str, Any]:
        """The likeliest next or missing words with their chances, the translation, or the vector."""
        asked, _ = self.subject(text)
        if isinstance(asked, Seq2SeqExplainer):
            return {"translation": asked.target.text}
        if isinstance(asked, EmbeddingExplainer):
            with torch.no_grad():
                mask = torch.ones(1, len(asked.tokens), dtype=torch.bool)
                return {"vector": asked._embed(asked.ids[None], mask)[0].tolist()}
        return {"label": asked.targets[0], "probabilities": asked.probabilities()}

    def subject(self, text: str, label: str | None = None) -> tuple[Explainer, list[str]]:
        """The model with a text before it, and what is to be said of it."""
        if not text.strip():
            raise UserError("there is nothing to look at: the text is empty")
        known = {"name": self.info.family, "folder": str(self.folder)}
        notes: list[str] = []
        if self.info.family in ("marian", "t5"):
            if label is not None:
                raise UserError("--label asks about a class or a word, and a translation has none; leave it out")
            return self._pair(text, notes, known), notes
        reading, cut = self.reader.reading(text, self.most)
        if cut:
            notes.append(f"The text has more than {self.most} tokens; only the first {self.most} were read.")
        if self.info.family == "gpt2":
            return NextTokenExplainer(self.net, reading, label=label, **known), notes
        return self._bert(reading, label, notes, known), notes

    def measuring(self, files: Sequence[str | Path], rows: int) -> Callable[[], dict[str, float]]:
        """How heads are measured over a file (regard.hub.token_loss)."""
        return measuring(self, files, rows)

    def with_net(self, net: nn.Module) -> Imported:
        """The same with other weights, such as without some heads."""
        return Imported(self.folder, net, self.info)

    def save_pretrained(self, out: str | Path) -> Path:
        """As a Hugging Face folder, which can be looked at as it is."""
        tokenizer = self.folder / "tokenizer.json"
        save_folder(self.net, out, info=self.info, tokenizer=tokenizer if tokenizer.is_file() else None)
        for file in [*side_files(self.folder), *side_files(self.folder / SIDE)]:
            shutil.copyfile(file, Path(out) / file.name)
        return Path(out)

    @property
    def headless(self) -> bool:
        """Whether a BERT came without the head that fills in words."""
        return any(name.startswith("word") for name in self.info.new)

    @property
    def end(self) -> int:
        return _first(self.info.config, "eos_token_id", default=1 if self.info.family == "t5" else 0)

    @property
    def begin(self) -> int:
        return _first(self.info.config, "decoder_start_token_id", "pad_token_id", default=0)

    def target_ids(self, text: str) -> list[int]:
        """A translation as the decoder is to say it, with its end."""
        ids = self.reader.said(text, self.folder)
        return ids if ids[-1:] == [self.end] else [*ids, self.end]

    def _bert(self, reading: PromptText, label: str | None, notes: list[str], known: dict[str, str]) -> Explainer:
        mask = self.reader.core.token_to_id("[MASK]")
        places = [i for i, id in enumerate(reading.ids) if id == mask] if mask is not None else []
        if places and self.headless:
            raise UserError(f"{self.folder} came without the head that fills in words; leave the [MASK] out")
        if places:
            if len(places) > 1:
                notes.append(f"The text has {len(places)} [MASK]s; the first is asked about.")
            return MaskedTokenExplainer(self.net, reading, places[0], label=label, **known)
        if label is not None:
            raise UserError("a word is asked about at a [MASK], and the text has none (or the model no head for it)")
        return EmbeddingExplainer(self.net, reading, **known)

    def _pair(self, text: str, notes: list[str], known: dict[str, str]) -> Seq2SeqExplainer:
        ids, tokens, cut = self.reader.read(text, self.most)
        if cut:
            notes.append(f"The source has more than {self.most} tokens; only the first {self.most} were read.")
        begin, end = self.begin, self.end
        never = sorted({begin, _first(self.info.config, "pad_token_id", default=begin)} - {end})
        said = greedy(self.net, ids, begin=begin, end=end, never=never)
        whole, shown = self.reader.target(said)
        shown.append({"text": "</s>", "start": len(whole), "end": len(whole), "word": None, "special": True})
        notes.append("The first line is the source, the second what the model makes of it, greedily.")
        if not whole.strip():
            notes.append("What the model makes of it is empty, so that no word can be asked about.")
        sides = TokenizedText(text, ids, tokens), TokenizedText(whole, [*said, end], shown)
        return Seq2SeqExplainer(self.net, *sides, bos_id=begin, bos_token="<start>", empty_id=end, **known)


def _first(config: dict[str, Any], *keys: str, default: int) -> int:
    """The first of these numbers that is given."""
    return next((config[key] for key in keys if isinstance(config.get(key), int)), default)


@torch.no_grad()
def greedy(
    net: Any, source: Sequence[int], *, begin: int, end: int, never: Sequence[int], longest: int = LONGEST
) -> list[int]:
    """The likeliest word each time, until the end."""
    read = net.project_source(net.encode(torch.tensor([list(source)])))
    past, word, said = None, begin, list[int]()
    while len(said) < longest:
        logits, past = net.step(torch.tensor([[word]]), past, read)
        row = logits[0, -1].clone()
        row[list(never)] = -torch.inf
        word = int(row.argmax())
        if word == end:
            break
        said.append(word)
    return said
