"""Decode several batches in parallel, each in a thread that uses one core.

    for index, result in run_in_threads(work, batches): ...        # in the order of completion

A decoding step is many short calls. Two cores that share each call wait for each other and for Python after every one;
two cores with a batch each do not, since kernels and matrix products release Python's lock. The number of torch threads
and inference mode are properties of a thread, so both are set inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
    """Yield the index of each item and the result of `work` on it.

    If the caller stops iterating, items that have not started are cancelled.
    """
    cores = torch.get_num_threads()
    threads = min(cores, len(items))
    if threads <= 1:
        yield from ((index, work(item)) for index, item in enumerate(items))
        return

    def work_in_thread(item: Item) -> Result:
        with torch.inference_mode():
            return work(item)

    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        futures = {pool.submit(work_in_thread, item): index for index, item in enumerate(items)}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(cores)  # the threads above have changed the default of new threads
