"""Tokenise files into shards: read in blocks, encoded by all cores, written in order; what was done before is kept."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from regard.data import chunks, token_shards
from regard.data.encode_ids import BlockEncoder, EncodedBlock

logger = logging.getLogger(__name__)

SHARD_TOKENS = 1 << 24  # tokens, or somewhat more
PLAIN_SECONDS = 10.0


ResumePoint = tuple[int, int, bool]
"""Where text goes on: which file, at which byte, and whether a document begins there."""


def tokenize_files(
    files: Sequence[chunks.TextSource],
    encoder: BlockEncoder,
    folder: Path,
    fingerprint: str,
    workers: int | None,
    shown: Callable[[int], None],
) -> list[str]:
    """Names of the shards. Those of an earlier call with the same fingerprint that was stopped are kept."""
    names, place = _before(folder, fingerprint)
    pending: list[tuple[EncodedBlock, ResumePoint]] = []
    writing = False

    def flush() -> None:
        nonlocal writing
        writing = True
        about = {"fingerprint": fingerprint, "next": pending[-1][1]}
        token_shards.write_shard(folder / _name(len(names)), concatenate_blocks([done for done, _ in pending]), about)
        names.append(_name(len(names)))
        pending.clear()
        writing = False

    sizes = np.cumsum([0, *map(chunks.file_size, files)]).tolist()
    shown(sizes[place[0]])
    with contextlib.closing(map_in_order(_blocks(files, encoder.documents, place), encoder, workers)) as all_done:
        try:
            for i, block, done in all_done:
                shown(sizes[i] + block.read)
                if not len(done.marks):
                    continue  # blank lines only
                pending.append((done, (i, block.offset + len(block.data), block.ends)))
                if sum(len(done.ids) for done, _ in pending) >= SHARD_TOKENS:
                    flush()
        except KeyboardInterrupt:
            if pending and not writing:
                flush()  # a shorter shard: nothing that was done is lost
            raise
    if pending:
        flush()
    return names


def concatenate_blocks(done: Sequence[EncodedBlock]) -> dict[str, np.ndarray]:
    """Stretches of a stream as one: documents and marks counted from its start."""
    before = np.zeros(3, np.int64)
    documents, marks = [], []
    for part in done:
        documents.append(part.documents + before[0])
        marks.append(part.marks + before)
        before = marks[-1][-1] if len(part.marks) else before
    return {
        "tokens": np.concatenate([part.ids for part in done]),
        "documents": np.concatenate(documents),
        "marks": np.concatenate(marks),
    }


def map_in_order(
    work: Iterable[tuple[int, chunks.TextBlock]],
    encode: Callable[[chunks.TextBlock], EncodedBlock],
    workers: int | None = None,
) -> Generator[tuple[int, chunks.TextBlock, EncodedBlock], None, None]:
    """Encode blocks in threads, and give them back as they came.

    The library lets go of the interpreter while it works and spreads each block over its own threads. One more block
    than there are cores is in its hands, so that it has work while ids of another are turned into numpy.
    """
    workers = workers or count_cores() + 1
    waiting: deque[tuple[int, chunks.TextBlock, Future[EncodedBlock]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for i, block in work:
                waiting.append((i, block, pool.submit(encode, block)))
                if len(waiting) > 2 * workers:
                    i, block, future = waiting.popleft()
                    yield i, block, future.result()
            while waiting:
                i, block, future = waiting.popleft()
                yield i, block, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _name(number: int) -> str:
    return f"shard-{number:05d}.safetensors"


def _blocks(
    files: Sequence[chunks.TextSource], documents: str, place: ResumePoint
) -> Iterator[tuple[int, chunks.TextBlock]]:
    first, offset, starts = place
    for i in range(first, len(files)):
        for block in chunks.read_blocks(files[i], documents, offset=offset, starts=starts):
            yield i, block
        offset, starts = 0, True


def _before(folder: Path, fingerprint: str) -> tuple[list[str], ResumePoint]:
    """Shards that are done, and where to go on; whatever else was left there is taken away."""
    names: list[str] = []
    place = (0, 0, True)
    with contextlib.suppress(token_shards.BrokenShard):
        while (path := folder / _name(len(names))).exists():
            about = token_shards.Shard(path).about
            if about.get("fingerprint") != fingerprint:
                break
            names.append(path.name)
            place = tuple(about["next"])
    for path in [*folder.glob("shard-*.safetensors"), *folder.glob("*.tmp")]:
        if path.name not in names:
            path.unlink()
    return names, place


@contextlib.contextmanager
def progress_bar(total: int, wanted: bool) -> Iterator[Callable[[int], None]]:
    """Show bytes, rate and time left: a bar on a terminal, a line now and then elsewhere."""
    console = Console(stderr=True)
    if not wanted:
        yield lambda done: None
        return
    if console.is_terminal and not console.is_dumb_terminal:
        columns = [BarColumn(24), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()]
        with Progress(TextColumn("tokenising"), *columns, console=console) as rich:
            task = rich.add_task("", total=total)
            yield lambda done: rich.update(task, completed=done)
        return
    begun = spoke = time.perf_counter()
    first: int | None = None

    def line(done: int) -> None:
        nonlocal spoke, first
        first, now = done if first is None else first, time.perf_counter()
        if now - spoke >= PLAIN_SECONDS:
            spoke = now
            rate = (done - first) / (now - begun)
            logger.info(f"tokenising {done / 1e6:.0f} of {total / 1e6:.0f} MB  {rate / 1e6:.1f} MB/s")

    yield line
