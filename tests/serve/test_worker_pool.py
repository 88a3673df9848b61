"""The queue before a model and the process behind it: nothing is lost or mixed up, whatever dies."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.serve.limits import Limits
from regard.serve.worker_pool import ModelWorker, QueueFull, RequestRefused, RequestTimeout, WorkerDied

PRETEND = (sys.executable, str(Path(__file__).parent / "fake_worker.py"))


def with_crew(do: Callable[[ModelWorker], Awaitable[None]], folder: str = "pretend", **limits) -> None:
    async def main() -> None:
        crew = ModelWorker("one", Path(folder), Limits(**limits), command=PRETEND)
        await crew.start()
        try:
            await do(crew)
        finally:
            await crew.stop()
            assert crew._process is not None
            assert crew._process.returncode is not None

    asyncio.run(main())


async def said(crew: ModelWorker, *texts: str) -> list[str]:
    return [one["answer"]["said"] for one in await crew.ask("predict", list(texts), size=len(texts))]


def test_each_request_gets_its_own_answer():
    async def do(crew: ModelWorker) -> None:
        found = await asyncio.gather(*(said(crew, f"a{i}", f"b{i}") for i in range(30)))
        assert found == [[f"a{i}", f"b{i}"] for i in range(30)]
        assert crew.answered == 30
        assert crew.verbs == ("predict", "look")

    with_crew(do)


def test_a_full_queue_refuses_and_the_rest_is_answered():
    async def do(crew: ModelWorker) -> None:
        slow = asyncio.create_task(said(crew, "sleep 0.3"))
        await asyncio.sleep(0.1)  # it is being worked on
        found = await asyncio.gather(*(said(crew, f"t{i}") for i in range(10)), return_exceptions=True)
        assert [one for one in found if not isinstance(one, QueueFull)] == [[f"t{i}"] for i in range(4)]
        assert sum(isinstance(one, QueueFull) for one in found) == 6
        assert await slow == ["sleep 0.3"]
        assert await said(crew, "and on") == ["and on"]

    with_crew(do, queue=4)


def test_a_slow_request_times_out_and_the_others_do_not():
    async def do(crew: ModelWorker) -> None:
        first = crew.pid
        late = asyncio.create_task(crew.ask("look", {"text": "sleep 30"}))
        await asyncio.sleep(0.05)
        with pytest.raises(RequestTimeout, match="within 3 seconds"):
            await late
        assert await said(crew, "after") == ["after"]
        assert crew.restarts == 1
        assert crew.pid != first

    with_crew(do, timeout=3.0)


def test_a_killed_process_is_restarted_and_the_request_repeated():
    async def do(crew: ModelWorker) -> None:
        assert crew.pid is not None
        os.kill(crew.pid, signal.SIGKILL)  # while it has nothing to do
        assert await said(crew, "x") == ["x"]
        working = asyncio.create_task(said(crew, "sleep 0.4"))
        await asyncio.sleep(0.15)
        os.kill(crew.pid, signal.SIGKILL)
        others = [asyncio.create_task(said(crew, f"o{i}")) for i in range(5)]
        assert await working == ["sleep 0.4"]
        assert await asyncio.gather(*others) == [[f"o{i}"] for i in range(5)]
        assert crew.restarts == 2

    with_crew(do)


def test_a_request_that_kills_every_time_fails(tmp_path):
    async def do(crew: ModelWorker) -> None:
        with pytest.raises(WorkerDied, match="died while it processed"):
            await said(crew, "die")
        assert await said(crew, f"die once {tmp_path / 'seen'}") == [f"die once {tmp_path / 'seen'}"]
        assert await said(crew, "fine") == ["fine"]

    with_crew(do)


def test_a_refused_request():
    async def do(crew: ModelWorker) -> None:
        assert (await crew.ask("predict", ["no", "yes"], size=2))[0] == {"error": "no"}
        with pytest.raises(RequestRefused, match="cannot be looked at"):
            await crew.ask("look", {"text": "no"})
        with pytest.raises(RuntimeError, match="ZeroDivision"):
            await said(crew, "bug")
        assert crew.restarts == 0

    with_crew(do)


def test_a_run_that_cannot_be_loaded_raises():
    with pytest.raises(UserError, match="no such run"):
        with_crew(lambda crew: asyncio.sleep(0), folder="broken")


def test_many_clients_while_workers_are_killed():
    """A few seconds of what benchmarks/serve.py does for a minute."""

    async def do(crew: ModelWorker) -> None:
        stop = asyncio.get_running_loop().time() + 3.0
        counts = {"answered": 0, "busy": 0}

        async def client(number: int) -> None:
            turn = 0
            while asyncio.get_running_loop().time() < stop:
                text = f"client {number} turn {turn}"
                try:
                    assert await said(crew, text) == [text]
                    counts["answered"] += 1
                    turn += 1
                except QueueFull:
                    counts["busy"] += 1
                    await asyncio.sleep(0.01)

        async def killer() -> None:
            for _ in range(4):
                await asyncio.sleep(0.6)
                if crew.pid is not None and crew.ready:
                    os.kill(crew.pid, signal.SIGKILL)

        await asyncio.gather(*(client(i) for i in range(64)), killer())
        assert counts["answered"] > 100
        assert crew.restarts >= 2
        assert not crew.waiting
        assert not crew.in_progress

    with_crew(do, queue=48, max_attempts=10)
