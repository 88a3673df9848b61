"""Tokenize files into shards: blocks are encoded on all cores and written in order; finished shards are reused."""

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

SHARD_TOKENS = 1 << 24  # a shard is written as soon as it has this many tokens
LOG_SECONDS = 10.0  # between log lines where no progress bar can be shown


ResumePoint = tuple[int, int, bool]
"""Where reading resumes: index of the file, byte offset, and whether a document starts there."""


def tokenize_files(
    files: Sequence[chunks.TextSource],
    encoder: BlockEncoder,
    folder: Path,
    fingerprint: str,
    workers: int | None,
    on_progress: Callable[[int], None],
) -> list[str]:
    """Write the shards of these files and return their names.

    Shards of an earlier, interrupted call with the same fingerprint are reused. `on_progress` is called with the number
    of bytes read.
    """
    names, resume_point = _find_finished_shards(folder, fingerprint)
    pending: list[tuple[EncodedBlock, ResumePoint]] = []
    is_writing = False

    def flush() -> None:
        nonlocal is_writing
        is_writing = True
        metadata = {"fingerprint": fingerprint, "next": pending[-1][1]}
        name = _shard_name(len(names))
        token_shards.write_shard(folder / name, concatenate_blocks([encoded for encoded, _ in pending]), metadata)
        names.append(name)
        pending.clear()
        is_writing = False

    offsets = np.cumsum([0, *map(chunks.file_size, files)]).tolist()
    on_progress(offsets[resume_point[0]])
    blocks = _read_all_blocks(files, encoder.documents, resume_point)
    with contextlib.closing(map_in_order(blocks, encoder, workers)) as results:
        try:
            for i, block, encoded in results:
                on_progress(offsets[i] + block.read)
                if not len(encoded.sizes):
                    continue  # only blank lines
                pending.append((encoded, (i, block.offset + len(block.data), block.ends)))
                if sum(len(encoded.ids) for encoded, _ in pending) >= SHARD_TOKENS:
                    flush()
        except KeyboardInterrupt:
            if pending and not is_writing:
                flush()  # a shorter shard, so that no work is lost
            raise
    if pending:
        flush()
    return names


def concatenate_blocks(blocks: Sequence[EncodedBlock]) -> dict[str, np.ndarray]:
    """Join consecutive blocks. Document starts and sizes count from the start of the first block."""
    total = np.zeros(3, np.int64)
    documents, sizes = [], []
    for block in blocks:
        documents.append(block.documents + total[0])
        sizes.append(block.sizes + total)
        total = sizes[-1][-1] if len(block.sizes) else total
    return {
        "tokens": np.concatenate([block.ids for block in blocks]),
        "documents": np.concatenate(documents),
        "sizes": np.concatenate(sizes),
    }


def map_in_order(
    blocks: Iterable[tuple[int, chunks.TextBlock]],
    encode: Callable[[chunks.TextBlock], EncodedBlock],
    workers: int | None = None,
) -> Generator[tuple[int, chunks.TextBlock, EncodedBlock], None, None]:
    """Encode blocks in threads, and yield the results in the order of the blocks.

    The library releases the GIL while it works and distributes each block over its own threads. By default one more
    block than there are cores is encoded, so that the library has work while the ids of another block are copied to
    numpy.
    """
    workers = workers or count_cores() + 1
    queue: deque[tuple[int, chunks.TextBlock, Future[EncodedBlock]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for i, block in blocks:
                queue.append((i, block, pool.submit(encode, block)))
                if len(queue) > 2 * workers:
                    i, block, future = queue.popleft()
                    yield i, block, future.result()
            while queue:
                i, block, future = queue.popleft()
                yield i, block, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shard_name(number: int) -> str:
    return f"shard-{number:05d}.safetensors"


def _read_all_blocks(
    files: Sequence[chunks.TextSource], documents: str, resume_point: ResumePoint
) -> Iterator[tuple[int, chunks.TextBlock]]:
    first, offset, starts = resume_point
    for i in range(first, len(files)):
        for block in chunks.read_blocks(files[i], documents, offset=offset, starts=starts):
            yield i, block
        offset, starts = 0, True


def _find_finished_shards(folder: Path, fingerprint: str) -> tuple[list[str], ResumePoint]:
    """Return the finished shards and where to resume. Other shards and temporary files are deleted."""
    names: list[str] = []
    resume_point = (0, 0, True)
    with contextlib.suppress(token_shards.BrokenShard):
        while (path := folder / _shard_name(len(names))).exists():
            metadata = token_shards.Shard(path).metadata
            if metadata.get("fingerprint") != fingerprint:
                break
            names.append(path.name)
            resume_point = tuple(metadata["next"])
    for path in [*folder.glob("shard-*.safetensors"), *folder.glob("shard-*.tmp")]:
        if path.name not in names:
            path.unlink()
    return names, resume_point


@contextlib.contextmanager
def progress_bar(total: int, visible: bool) -> Iterator[Callable[[int], None]]:
    """Show bytes, rate and remaining time: a bar on a terminal, a log line every few seconds elsewhere."""
    console = Console(stderr=True)
    if not visible:
        yield lambda done: None
        return
    if console.is_terminal and not console.is_dumb_terminal:
        columns = [BarColumn(24), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()]
        with Progress(TextColumn("tokenizing"), *columns, console=console) as progress:
            task = progress.add_task("", total=total)
            yield lambda done: progress.update(task, completed=done)
        return
    start_time = log_time = time.perf_counter()
    start_bytes: int | None = None

    def log_progress(done: int) -> None:
        nonlocal log_time, start_bytes
        start_bytes, current_time = done if start_bytes is None else start_bytes, time.perf_counter()
        if current_time - log_time >= LOG_SECONDS:
            log_time = current_time
            rate = (done - start_bytes) / (current_time - start_time)
            logger.info(f"tokenizing {done / 1e6:.0f} of {total / 1e6:.0f} MB  {rate / 1e6:.1f} MB/s")

    yield log_progress
