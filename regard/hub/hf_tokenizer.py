"""Text in and out of an imported model: by its tokenizer.json, or by Marian's SentencePiece file and vocabulary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers as tk

from regard.errors import UserError
from regard.explain.token_explainers import PromptText
from regard.hub.sentencepiece import unigram

ENDS = ("<|endoftext|>", "</s>")


class Reader:
    """`ids` of a piece and back go through a table of their own where the tokenizer numbers its pieces otherwise."""

    def __init__(self, core: tk.Tokenizer, table: dict[str, int] | None = None, *, end: int | None = None):
        core.no_padding()
        core.no_truncation()
        self.core, self.table, self.end = core, table, end
        self.names = {number: piece for piece, number in table.items()} if table else {}
        unknown = (table or {}).get("<unk>")
        self.unknown = 1 if unknown is None else unknown

    @classmethod
    def of(cls, folder: Path, config: dict[str, Any]) -> Reader:
        """The reader of an imported folder, or of a Hugging Face one."""
        file = folder / "tokenizer.json"
        if file.is_file():
            try:
                return cls(tk.Tokenizer.from_file(str(file)))
            except Exception as problem:  # the library raises bare Exception
                raise UserError(f"{file} cannot be read: {problem}") from None
        for place in (folder, folder / "source"):
            if (place / "source.spm").is_file() and (place / "vocab.json").is_file():
                table = json.loads((place / "vocab.json").read_text(encoding="utf-8"))
                return cls(unigram(place / "source.spm"), table, end=config.get("eos_token_id", 0))
        raise UserError(
            f"{folder} has no tokenizer.json (nor source.spm and vocab.json), so that no text can be read; save one "
            "beside the weights (transformers: AutoTokenizer.from_pretrained(name).save_pretrained(folder))"
        )

    def read(self, text: str, most: int | None = None) -> tuple[list[int], list[dict[str, Any]], bool]:
        """Ids, tokens as the page has them, and whether the text was cut at `most` tokens."""
        cut = False
        if most is not None and self.table is None:
            cut = len(self.core.encode(text).ids) > most
            self.core.enable_truncation(max_length=most)
        encoding = self.core.encode(text)
        if most is not None and self.table is None:
            self.core.no_truncation()
        ids = encoding.ids if self.table is None else [self.table.get(p, self.unknown) for p in encoding.tokens]
        spans = zip(encoding.tokens, encoding.offsets, encoding.special_tokens_mask, strict=True)
        tokens = [
            {
                "text": text[a:b] or piece,
                "start": a,
                "end": b,
                "word": None,
                "special": bool(special),
            }
            for piece, (a, b), special in spans
        ]
        _words(text, tokens)
        if self.end is not None and self.table is not None:
            if most is not None and len(ids) >= most:
                ids, tokens, cut = ids[: most - 1], tokens[: most - 1], True
            at = len(text)
            ids = [*ids, self.end]
            tokens.append({"text": self.token(self.end), "start": at, "end": at, "word": None, "special": True})
        return list(ids), tokens, cut

    def said(self, text: str, folder: Path) -> list[int]:
        """A text of the other side: Marian cuts it by a file of its own, with the same table."""
        if self.table is None:
            return list(self.core.encode(text).ids)
        files = [place / "target.spm" for place in (folder, folder / "source") if (place / "target.spm").is_file()]
        core = unigram(files[0]) if files else self.core
        return [self.table.get(piece, self.unknown) for piece in core.encode(text).tokens]

    def reading(self, text: str, most: int | None = None) -> tuple[PromptText, bool]:
        ids, tokens, cut = self.read(text, most)
        if not any(not t["special"] for t in tokens):
            raise UserError("there is nothing to look at: the text is empty")
        return PromptText(text, ids, tokens, self.word, self.find, banned_ids=self.never), cut

    @property
    def never(self) -> tuple[int, ...]:
        """Tokens that no word is: those that begin, fill up or hide, but for the end of a text."""
        known = self.core.get_added_tokens_decoder()
        return tuple(i for i, token in known.items() if token.special and token.content not in ENDS)

    def token(self, id: int) -> str:
        return self.names.get(id, "") if self.table else self.core.id_to_token(id) or ""

    def word(self, id: int) -> str:
        """One token as text, with the space before it."""
        piece = self.token(id)
        if piece.startswith(("▁", "Ġ")):
            return " " + self.text([id]).strip()
        return self.text([id]) or piece

    def text(self, ids: Iterable[int]) -> str:
        """Tokens as text again."""
        if self.table is None:
            return self.core.decode([int(i) for i in ids], skip_special_tokens=True)
        pieces = [self.token(int(i)) for i in ids]
        return "".join(p for p in pieces if p not in ("<pad>", "</s>", "<unk>")).replace("▁", " ").strip()

    def find(self, word: str) -> int | None:
        """The id of a word that is one token."""
        for written in (f" {word}", word):
            found = self.core.encode(written, add_special_tokens=False)
            if len(found.ids) == 1:
                return found.ids[0] if self.table is None else self.table.get(found.tokens[0])
        return None

    def target(self, ids: Sequence[int]) -> tuple[str, list[dict[str, Any]]]:
        """A translation's ids as text, and its tokens with their places in it."""
        whole, tokens, at, word = self.text(ids), [], 0, -1
        for number, id in enumerate(ids):
            piece, part = self.token(id), self.text(ids[: number + 1])
            end = max(at, len(part)) if whole.startswith(part) else at
            special = not self.text([id]) and end == at
            starts = piece.startswith(("▁", "Ġ")) or number == 0 or whole[at : at + 1] == " "
            word += int(starts and not special)
            start = at + (len(whole[at:end]) - len(whole[at:end].lstrip()))
            tokens.append(
                {
                    "text": whole[start:end] or piece,
                    "start": min(start, end),
                    "end": end,
                    "word": None if special else max(word, 0),
                    "special": special,
                }
            )
            at = end
        return whole, tokens


def _words(text: str, tokens: list[dict[str, Any]]) -> None:
    """Words are what stands between spaces, so that marks belong to the word before and pieces are joined, whatever the
    tokenizer calls a word."""
    number, end = -1, None
    for token in tokens:
        if token["special"]:
            continue
        part = text[token["start"] : token["end"]]
        a = token["start"] + len(part) - len(part.lstrip())
        if end is None or any(c.isspace() for c in text[end:a]) or a > token["start"]:
            number += 1
        token["word"], end = max(number, 0), token["end"]
