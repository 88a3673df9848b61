"""Fingerprint of a corpus, to reuse stored tokens of the same text and tokenizer; and a lock on the folder."""

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

FORMAT = 2  # increase it when the same text would give other tokens or another file
_MIN_AGE = 2_000_000_000  # nanoseconds; a younger file could change again with the same modification time


@dataclass(frozen=True)
class CorpusKey:
    """What tokens depend on: the contents of the files in their order, the tokenizer, and the document mode.

    Attributes:
        files: The files.
        file_stats: Path, size and modification time of each file. If these are unchanged, contents are not read again.
        tokenizer: Hash of the tokenizer.
        documents: What a document is, see `build_corpus`.
    """

    files: tuple[TextSource, ...]
    file_stats: list[list[Any]]
    tokenizer: str
    documents: str

    @classmethod
    def from_files(cls, files: Sequence[TextSource], tokenizer: Tokenizer, documents: str) -> CorpusKey:
        tokenizer_hash = hashlib.sha256(tokenizer.core.to_str().encode()).hexdigest()
        return cls(tuple(files), _read_file_stats(files), tokenizer_hash, documents)

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(map(file_size, self.files))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the contents, independent of file names."""
        digest = hashlib.sha256(f"{FORMAT} {self.tokenizer} {self.documents}".encode())
        for file in self.files:
            try:
                with open_source(file) as content:
                    digest.update(hashlib.file_digest(content, "sha256").digest())
            except OSError as error:
                raise UserError(f"cannot read {file}: {error.strerror or error}") from None
        return digest.hexdigest()

    def matches(self, path: Path) -> bool:
        """Return whether the corpus with index file `path` is complete and has the same contents."""
        try:
            index = json.loads(path.read_text(encoding="utf-8"))
            if (index["format"], index["tokenizer"], index["documents"]) != (FORMAT, self.tokenizer, self.documents):
                return False
            if index["file_stats"] != self.file_stats and index["fingerprint"] != self.fingerprint:
                return False
            shards = (Shard(path.with_name(name)) for name in index["shards"])
            return all(shard.metadata["fingerprint"] == index["fingerprint"] for shard in shards)
        except (BrokenShard, OSError, ValueError, KeyError, TypeError):
            return False

    def write(self, path: Path, shards: list[str]) -> None:
        """Write the index file of a finished corpus."""
        if _read_file_stats(self.files) != self.file_stats:
            raise UserError("the text changed while it was tokenized; try again when nothing writes to it")
        is_old = all(date < time.time_ns() - _MIN_AGE for _, _, date in self.file_stats)
        index = {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "tokenizer": self.tokenizer,
            "documents": self.documents,
            "file_stats": self.file_stats if is_old else None,
            "shards": shards,
        }
        replace_file(path, (json.dumps(index, indent=1) + "\n").encode())


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Let one process at a time build a corpus; others wait, and then find it finished.

    The lock disappears with its process, so that a killed process locks nothing.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(folder / ".lock", "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            logger.info(f"another process is tokenizing into {folder}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read_file_stats(files: Sequence[TextSource]) -> list[list[Any]]:
    try:
        return [[str(file.resolve()), (stat := file.stat()).st_size, stat.st_mtime_ns] for file in files]
    except OSError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror or error}") from None
