"""The tokenizer of an imported model: its tokenizer.json, or Marian's SentencePiece files and vocabulary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers as tk

from regard.errors import UserError
from regard.explain.token_explainers import PromptText
from regard.hub.sentencepiece import load_unigram

END_TOKENS = ("<|endoftext|>", "</s>")


class HFTokenizer:
    """Text to token ids and back.

    Args:
        core: The tokenizer.
        vocab: Piece to id, where the ids of the model differ from those of the tokenizer (Marian).
        end_id: The end-of-sequence token that is added to a text; None for none.
    """

    def __init__(self, core: tk.Tokenizer, vocab: dict[str, int] | None = None, *, end_id: int | None = None):
        core.no_padding()
        core.no_truncation()
        self.core, self.vocab, self.end_id = core, vocab, end_id
        self.pieces = {token_id: piece for piece, token_id in vocab.items()} if vocab else {}
        unknown_id = (vocab or {}).get("<unk>")
        self.unknown_id = 1 if unknown_id is None else unknown_id

    @classmethod
    def load(cls, folder: Path, hf_config: dict[str, Any]) -> HFTokenizer:
        """Load the tokenizer of an imported folder, or of a Hugging Face folder."""
        file = folder / "tokenizer.json"
        if file.is_file():
            try:
                return cls(tk.Tokenizer.from_file(str(file)))
            except Exception as error:  # the library raises bare Exception
                raise UserError(f"{file} cannot be read: {error}") from None
        for source in (folder, folder / "source"):
            if (source / "source.spm").is_file() and (source / "vocab.json").is_file():
                vocab = json.loads((source / "vocab.json").read_text(encoding="utf-8"))
                return cls(load_unigram(source / "source.spm"), vocab, end_id=hf_config.get("eos_token_id", 0))
        raise UserError(
            f"{folder} has no tokenizer.json (nor source.spm and vocab.json); save one next to the weights "
            "(transformers: AutoTokenizer.from_pretrained(name).save_pretrained(folder))"
        )

    def encode(self, text: str, max_tokens: int | None = None) -> tuple[list[int], list[dict[str, Any]], bool]:
        """Tokenize a text.

        Returns:
            Token ids, tokens with their spans as an attention page expects them, and whether the text was truncated.
        """
        truncated = False
        if max_tokens is not None and self.vocab is None:
            truncated = len(self.core.encode(text).ids) > max_tokens
            self.core.enable_truncation(max_length=max_tokens)
        encoding = self.core.encode(text)
        if max_tokens is not None and self.vocab is None:
            self.core.no_truncation()
        ids = encoding.ids if self.vocab is None else [self.vocab.get(p, self.unknown_id) for p in encoding.tokens]
        spans = zip(encoding.tokens, encoding.offsets, encoding.special_tokens_mask, strict=True)
        tokens = [
            {"text": text[start:end] or piece, "start": start, "end": end, "word": None, "special": bool(special)}
            for piece, (start, end), special in spans
        ]
        _number_words(text, tokens)
        if self.end_id is not None and self.vocab is not None:
            if max_tokens is not None and len(ids) >= max_tokens:
                ids, tokens, truncated = ids[: max_tokens - 1], tokens[: max_tokens - 1], True
            end = len(text)
            ids = [*ids, self.end_id]
            tokens.append({"text": self.piece(self.end_id), "start": end, "end": end, "word": None, "special": True})
        return list(ids), tokens, truncated

    def encode_target(self, text: str, folder: Path) -> list[int]:
        """Token ids of a translation. Marian has a separate SentencePiece file for them, with the same vocabulary."""
        if self.vocab is None:
            return list(self.core.encode(text).ids)
        files = [path / "target.spm" for path in (folder, folder / "source") if (path / "target.spm").is_file()]
        core = load_unigram(files[0]) if files else self.core
        return [self.vocab.get(piece, self.unknown_id) for piece in core.encode(text).tokens]

    def build_prompt(self, text: str, max_tokens: int | None = None) -> tuple[PromptText, bool]:
        """A tokenized prompt for an explainer, and whether it was truncated."""
        ids, tokens, truncated = self.encode(text, max_tokens)
        if not any(not t["special"] for t in tokens):
            raise UserError("the text is empty")
        return PromptText(text, ids, tokens, self.decode_token, self.find_token, banned_ids=self.banned_ids), truncated

    @property
    def banned_ids(self) -> tuple[int, ...]:
        """Special tokens that are never predicted: all but the end of a text."""
        special_tokens = self.core.get_added_tokens_decoder()
        return tuple(i for i, token in special_tokens.items() if token.special and token.content not in END_TOKENS)

    def piece(self, token_id: int) -> str:
        """The token as the vocabulary has it."""
        return self.pieces.get(token_id, "") if self.vocab else self.core.id_to_token(token_id) or ""

    def decode_token(self, token_id: int) -> str:
        """One token as text, with the space before it."""
        piece = self.piece(token_id)
        if piece.startswith(("▁", "Ġ")):
            return " " + self.decode([token_id]).strip()
        return self.decode([token_id]) or piece

    def decode(self, ids: Iterable[int]) -> str:
        """Token ids to text."""
        if self.vocab is None:
            return self.core.decode([int(i) for i in ids], skip_special_tokens=True)
        pieces = [self.piece(int(i)) for i in ids]
        return "".join(p for p in pieces if p not in ("<pad>", "</s>", "<unk>")).replace("▁", " ").strip()

    def find_token(self, word: str) -> int | None:
        """The id of a word that is a single token; None if there is none."""
        for text in (f" {word}", word):
            encoding = self.core.encode(text, add_special_tokens=False)
            if len(encoding.ids) == 1:
                return encoding.ids[0] if self.vocab is None else self.vocab.get(encoding.tokens[0])
        return None

    def decode_with_spans(self, ids: Sequence[int]) -> tuple[str, list[dict[str, Any]]]:
        """Token ids to text, and the tokens with their spans in it."""
        text, tokens, position, word = self.decode(ids), [], 0, -1
        for number, token_id in enumerate(ids):
            piece, prefix = self.piece(token_id), self.decode(ids[: number + 1])
            end = max(position, len(prefix)) if text.startswith(prefix) else position
            special = not self.decode([token_id]) and end == position
            starts_word = piece.startswith(("▁", "Ġ")) or number == 0 or text[position : position + 1] == " "
            word += int(starts_word and not special)
            start = position + (len(text[position:end]) - len(text[position:end].lstrip()))
            tokens.append(
                {
                    "text": text[start:end] or piece,
                    "start": min(start, end),
                    "end": end,
                    "word": None if special else max(word, 0),
                    "special": special,
                }
            )
            position = end
        return text, tokens


def _number_words(text: str, tokens: list[dict[str, Any]]) -> None:
    """Set the word number of each token. Words are separated by spaces, whatever the tokenizer calls a word, so that
    punctuation belongs to the word before it."""
    number, end = -1, None
    for token in tokens:
        if token["special"]:
            continue
        part = text[token["start"] : token["end"]]
        start = token["start"] + len(part) - len(part.lstrip())
        if end is None or any(c.isspace() for c in text[end:start]) or start > token["start"]:
            number += 1
        token["word"], end = max(number, 0), token["end"]
