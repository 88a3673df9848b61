"""Batches side by side, each on a thread of its own with one core.

    for number, found in spread(work, parts): ...        # in the order in which they are done

A step of decoding is many short calls. Two cores that share each of them wait for each other, and for Python, after
every one; two cores with a batch each do not: kernels and products let go of Python's lock. Threads of torch's own are
kept at one inside, and inference mode is entered there, since both are a thread's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import torch

Part = TypeVar("Part")
Found = TypeVar("Found")


def spread(work: Callable[[Part], Found], parts: Sequence[Part]) -> Iterator[tuple[int, Found]]:
    """The number of each part and what `work` makes of it. Stopped early, parts that are not begun are left."""
    threads = min(torch.get_num_threads(), len(parts))
    if threads <= 1:
        yield from ((number, work(part)) for number, part in enumerate(parts))
        return

    def alone(part: Part) -> Found:
        with torch.inference_mode():
            return work(part)

    cores = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        futures = {pool.submit(alone, part): number for number, part in enumerate(parts)}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(cores)  # what threads to come begin with was changed by those above
