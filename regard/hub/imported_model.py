"""Use and inspect an imported model, or a Hugging Face folder directly.

bert          predicts the token at a [MASK] (if the model has its head), otherwise the embedding of the text
gpt2          predicts the next token
marian, t5    translate, with the most probable token at each step (greedy decoding)
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
from regard.hub.hf_folder import ImportInfo
from regard.hub.hf_tokenizer import HFTokenizer
from regard.hub.imported_folder import SOURCE_FOLDER, load_imported, side_files
from regard.hub.token_loss import build_evaluation

MAX_TARGET_TOKENS = 128


class ImportedModel:
    """An imported model with its tokenizer; `ImportedModel.load(folder)` loads it.

    Args:
        folder: The folder it was loaded from.
        model: A BERT, GPT, Marian or T5.
        info: What was imported.
    """

    verbs = ("look", "predict")

    def __init__(self, folder: Path, model: nn.Module, info: ImportInfo):
        self.folder, self.model, self.info = folder, model.eval(), info

    @classmethod
    def load(cls, folder: str | Path) -> ImportedModel:
        """Load a folder that `regard import` wrote, or a Hugging Face folder."""
        folder = Path(folder)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if "imported" in config:
            return cls(folder, *load_imported(folder))
        model, _, info = load_folder(folder)
        return cls(folder, model, info)

    @cached_property
    def tokenizer(self) -> HFTokenizer:
        """The tokenizer of the folder."""
        return HFTokenizer.load(self.folder, self.info.config)

    @property
    def max_tokens(self) -> int | None:
        """Length at which a text is truncated."""
        length = self.info.config.get("max_position_embeddings") or self.info.config.get("n_positions")
        return int(length) if self.info.family in ("bert", "gpt2") and length else 512

    def look(
        self, text: str, *, label: str | None = None, faithful: bool = True, what_if: Sequence[Intervention | str] = ()
    ) -> Look:
        """Inspect the attention on a text, as for trained runs.

        Args:
            text: The text; the source of a translation.
            label: The token that the explanation is about; None for the most probable one.
            faithful: Whether to measure faithfulness.
            what_if: Interventions to try.
        """
        explainer, notes = self.build_explainer(text, label)
        return build_look(explainer, faithful=faithful, interventions=what_if, notes=notes)

    def predict(self, text: str) -> dict[str, Any]:
        """The probable next or masked tokens with their probabilities, the translation, or the embedding."""
        explainer, _ = self.build_explainer(text)
        if isinstance(explainer, Seq2SeqExplainer):
            return {"translation": explainer.target.text}
        if isinstance(explainer, EmbeddingExplainer):
            with torch.no_grad():
                mask = torch.ones(1, len(explainer.tokens), dtype=torch.bool)
                return {"vector": explainer._embed(explainer.ids[None], mask)[0].tolist()}
        return {"label": explainer.targets[0], "probabilities": explainer.probabilities()}

    def build_explainer(self, text: str, label: str | None = None) -> tuple[Explainer, list[str]]:
        """The explainer of the model's output on a text, and notes for the reader."""
        if not text.strip():
            raise UserError("the text is empty")
        source = {"name": self.info.family, "folder": str(self.folder)}
        notes: list[str] = []
        if self.info.family in ("marian", "t5"):
            if label is not None:
                raise UserError("--label does not apply to a translation, which has no classes; leave it out")
            return self._build_seq2seq_explainer(text, notes, source), notes
        prompt, truncated = self.tokenizer.build_prompt(text, self.max_tokens)
        if truncated:
            notes.append(f"The text was truncated to its first {self.max_tokens} tokens.")
        if self.info.family == "gpt2":
            return NextTokenExplainer(self.model, prompt, label=label, **source), notes
        return self._build_bert_explainer(prompt, label, notes, source), notes

    def build_evaluation(self, files: Sequence[str | Path], rows: int) -> Callable[[], dict[str, float]]:
        """A function that computes loss and accuracy on files (see `regard.hub.token_loss`)."""
        return build_evaluation(self, files, rows)

    def with_model(self, model: nn.Module) -> ImportedModel:
        """A copy with another model, for example one with pruned heads."""
        return ImportedModel(self.folder, model, self.info)

    def save_pretrained(self, out: str | Path) -> Path:
        """Save as a Hugging Face folder, which `regard look` can read directly."""
        tokenizer = self.folder / "tokenizer.json"
        save_folder(self.model, out, info=self.info, tokenizer=tokenizer if tokenizer.is_file() else None)
        for file in [*side_files(self.folder), *side_files(self.folder / SOURCE_FOLDER)]:
            shutil.copyfile(file, Path(out) / file.name)
        return Path(out)

    @property
    def lacks_token_head(self) -> bool:
        """Whether a BERT was imported without its masked-token head."""
        return any(name.startswith("mlm_") for name in self.info.new)

    @property
    def end_id(self) -> int:
        """Id of the end-of-sequence token."""
        return _first_int(self.info.config, "eos_token_id", default=1 if self.info.family == "t5" else 0)

    @property
    def start_id(self) -> int:
        """Id of the token that a decoder starts with."""
        return _first_int(self.info.config, "decoder_start_token_id", "pad_token_id", default=0)

    def target_ids(self, text: str) -> list[int]:
        """Token ids of a translation, with the end-of-sequence token."""
        ids = self.tokenizer.encode_target(text, self.folder)
        return ids if ids[-1:] == [self.end_id] else [*ids, self.end_id]

    def _build_bert_explainer(
        self, prompt: PromptText, label: str | None, notes: list[str], source: dict[str, str]
    ) -> Explainer:
        mask_id = self.tokenizer.core.token_to_id("[MASK]")
        masked = [i for i, token_id in enumerate(prompt.ids) if token_id == mask_id] if mask_id is not None else []
        if masked and self.lacks_token_head:
            raise UserError(f"{self.folder} was imported without its masked-token head; leave out the [MASK]")
        if masked:
            if len(masked) > 1:
                notes.append(f"The text has {len(masked)} [MASK] tokens; the first one is explained.")
            return MaskedTokenExplainer(self.model, prompt, masked[0], label=label, **source)
        if label is not None:
            raise UserError("--label needs a [MASK] in the text, and a model with a masked-token head")
        return EmbeddingExplainer(self.model, prompt, **source)

    def _build_seq2seq_explainer(self, text: str, notes: list[str], source: dict[str, str]) -> Seq2SeqExplainer:
        ids, tokens, truncated = self.tokenizer.encode(text, self.max_tokens)
        if truncated:
            notes.append(f"The source was truncated to its first {self.max_tokens} tokens.")
        start_id, end_id = self.start_id, self.end_id
        banned_ids = sorted({start_id, _first_int(self.info.config, "pad_token_id", default=start_id)} - {end_id})
        target_ids = translate_greedily(self.model, ids, start_id=start_id, end_id=end_id, banned_ids=banned_ids)
        target, target_tokens = self.tokenizer.decode_with_spans(target_ids)
        end = len(target)
        target_tokens.append({"text": "</s>", "start": end, "end": end, "word": None, "special": True})
        notes.append("The first line is the source, the second is the greedy translation.")
        if not target.strip():
            notes.append("The translation is empty, so there is no token to explain.")
        texts = TokenizedText(text, ids, tokens), TokenizedText(target, [*target_ids, end_id], target_tokens)
        return Seq2SeqExplainer(self.model, *texts, bos_id=start_id, bos_token="<start>", empty_id=end_id, **source)


def _first_int(config: dict[str, Any], *keys: str, default: int) -> int:
    """The value of the first key that has a whole number."""
    return next((config[key] for key in keys if isinstance(config.get(key), int)), default)


@torch.no_grad()
def translate_greedily(
    model: Any,
    source: Sequence[int],
    *,
    start_id: int,
    end_id: int,
    banned_ids: Sequence[int],
    max_tokens: int = MAX_TARGET_TOKENS,
) -> list[int]:
    """Translate one source by greedy decoding.

    Args:
        model: A Marian or T5.
        source: Token ids of the source.
        start_id: The first token of the decoder.
        end_id: The token that ends the translation; not part of the result.
        banned_ids: Tokens that are never generated.
        max_tokens: Length at which the translation stops.
    """
    context = model.project_source(model.encode(torch.tensor([list(source)])))
    cache, token, target = None, start_id, list[int]()
    while len(target) < max_tokens:
        logits, cache = model.step(torch.tensor([[token]]), cache, context)
        last_logits = logits[0, -1].clone()
        last_logits[list(banned_ids)] = -torch.inf
        token = int(last_logits.argmax())
        if token == end_id:
            break
        target.append(token)
    return target
