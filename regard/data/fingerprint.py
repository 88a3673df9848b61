"""Whether tokens on disk are those of the same text, tokenizer and documents; and one build at a time in a folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.data.chunks import TextSource, file_size, open_source
from regard.data.token_shards import BrokenShard, Shard, replace_file
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError

logger = logging.getLogger(__name__)

FORMAT = 1  # raise it when the same text would give other tokens or another file
_SETTLED = 2_000_000_000  # nanoseconds; a file changed later than this could change again without a newer date


@dataclass(frozen=True)
class CorpusKey:
    """What tokens depend on: the contents of files in their order, the tokenizer, and how documents are cut."""

    files: tuple[TextSource, ...]
    seen: list[list[Any]]
    """Path, size and date of each file: where these are as they were, the contents are not read again."""
    tokenizer: str
    documents: str

    @classmethod
    def of(cls, files: Sequence[TextSource], tokenizer: Tokenizer, documents: str) -> CorpusKey:
        return cls(tuple(files), _seen(files), hashlib.sha256(tokenizer.core.to_str().encode()).hexdigest(), documents)

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(map(file_size, self.files))

    @cached_property
    def fingerprint(self) -> str:
        """Of the contents, wherever the files stand."""
        whole = hashlib.sha256(f"{FORMAT} {self.tokenizer} {self.documents}".encode())
        for file in self.files:
            try:
                with open_source(file) as content:
                    whole.update(hashlib.file_digest(content, "sha256").digest())
            except OSError as problem:
                raise UserError(f"cannot read {file}: {problem.strerror or problem}") from None
        return whole.hexdigest()

    def matches(self, path: Path) -> bool:
        """Whether the corpus described at `path` is whole and of the same contents."""
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            same = (about["format"], about["tokenizer"], about["documents"]) == (FORMAT, self.tokenizer, self.documents)
            if not same or (about["seen"] != self.seen and about["fingerprint"] != self.fingerprint):
                return False
            return all(Shard(path.with_name(n)).about["fingerprint"] == about["fingerprint"] for n in about["shards"])
        except (BrokenShard, OSError, ValueError, KeyError, TypeError):
            return False

    def write(self, path: Path, shards: list[str]) -> None:
        """Describe a corpus that is done."""
        if _seen(self.files) != self.seen:
            raise UserError("the text changed while it was tokenised; start again when nothing writes to it")
        settled = all(date < time.time_ns() - _SETTLED for _, _, date in self.seen)
        about = {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "tokenizer": self.tokenizer,
            "documents": self.documents,
            "seen": self.seen if settled else None,
            "shards": shards,
        }
        replace_file(path, (json.dumps(about, indent=1) + "\n").encode())


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """One process at a time: others wait, and find the work done. A killed process leaves nothing locked."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(folder / ".lock", "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            logger.info(f"another process tokenises into {folder}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _seen(files: Sequence[TextSource]) -> list[list[Any]]:
    try:
        return [[str(file.resolve()), (stat := file.stat()).st_size, stat.st_mtime_ns] for file in files]
    except OSError as problem:
        raise UserError(f"cannot read {problem.filename}: {problem.strerror or problem}") from None
