"""Each model runs in its own process, with a bounded queue of requests.

A process that dies, or that is killed because a request took too long, is restarted, and its requests are tried again.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.serve import message_frames
from regard.serve.limits import Limits

WORKER, WORKER_WITH_IMPORTS = "regard.serve.worker", "regard.cli.worker"
"""The second one imports the user's files first, which only the command line may do."""


class QueueFull(Exception):
    """The queue is full."""


class RequestTimeout(Exception):
    """The request took too long."""


class WorkerDied(Exception):
    """The process died on this request, at every attempt."""


class RequestRefused(UserError):
    """The model cannot answer the request."""


@dataclass(eq=False)
class Job:
    """A request. `size` is the number of its texts."""

    verb: str
    payload: Any
    future: asyncio.Future
    attempts: int = 0
    size: int = 1


@dataclass
class ModelWorker:
    """A model: its folder, its process, and the requests that wait for it."""

    name: str
    folder: Path
    limits: Limits
    imports: tuple[Path, ...] = ()
    command: tuple[str, ...] = ()
    waiting: deque[Job] = field(default_factory=deque)
    in_progress: list[Job] = field(default_factory=list)
    restarts: int = 0
    verbs: tuple[str, ...] = ()
    task: str = ""
    ready: bool = False
    answered: int = 0
    problem: str = ""

    def __post_init__(self) -> None:
        self._has_work = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._runner: asyncio.Task | None = None
        self._started: asyncio.Future | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start the process. Raises if the folder cannot be loaded."""
        self._started = asyncio.get_running_loop().create_future()
        self._runner = asyncio.create_task(self._run())
        await self._started

    async def stop(self) -> None:
        """Stop the process and fail all requests."""
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        await self._kill()
        for job in [*self.waiting, *self.in_progress]:
            if not job.future.done():
                job.future.set_exception(WorkerDied("the server is stopping"))
        self.waiting.clear()

    async def ask(self, verb: str, payload: Any, size: int = 1) -> Any:
        """Send a request and return the model's answer. Raises `QueueFull`, `RequestTimeout` or `WorkerDied`."""
        if len(self.waiting) >= self.limits.queue:
            raise QueueFull(f"{self.name} is busy: {len(self.waiting)} requests are waiting; try again")
        job = Job(verb, payload, asyncio.get_running_loop().create_future(), size=size)
        self.waiting.append(job)
        self._has_work.set()
        try:
            return await asyncio.wait_for(asyncio.shield(job.future), self.limits.timeout)
        except TimeoutError:
            self._abandon(job)
            raise RequestTimeout(f"no answer within {self.limits.timeout:g} seconds") from None
        except asyncio.CancelledError:  # the client has disconnected
            if job in self.waiting:
                self.waiting.remove(job)
            job.future.cancel()
            raise

    def _abandon(self, job: Job) -> None:
        job.future.cancel()
        if job in self.waiting:
            self.waiting.remove(job)
        elif job in self.in_progress and self._process is not None and self._process.returncode is None:
            self._process.kill()  # it may hang; its other requests are queued again

    async def _run(self) -> None:
        delay = 0.05
        while True:
            try:
                await self._spawn()
                delay = 0.05
                while True:
                    await self._process_next()
            except _ProcessEnded as problem:
                self.ready = False
                self.problem = str(problem)
                await self._kill()
                if self._started is not None and not self._started.done():
                    self._started.set_exception(UserError(self.problem or f"{self.folder} cannot be opened"))
                    return
                self.restarts += 1
                self._requeue()
                await asyncio.sleep(delay)
                delay = min(5.0, 2 * delay)

    def _requeue(self) -> None:
        """Put the requests in progress back to the front of the queue, or fail them."""
        for job in reversed(self.in_progress):
            if job.future.done():
                continue
            job.attempts += 1
            if job.attempts >= self.limits.max_attempts:
                job.future.set_exception(WorkerDied("the model's process died while it processed this request"))
            else:
                self.waiting.appendleft(job)
        self.in_progress = []
        if self.waiting:
            self._has_work.set()

    async def _spawn(self) -> None:
        path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
        self._process = await asyncio.create_subprocess_exec(
            *(self.command or (sys.executable, "-m", WORKER_WITH_IMPORTS if self.imports else WORKER)),
            *(str(self.folder), *map(str, self.imports)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C goes to the server, which then stops them
        )
        greeting = await self._receive()
        if "fatal" in greeting:
            raise _ProcessEnded(greeting["fatal"])
        self.verbs, self.task, self.ready, self.problem = tuple(greeting["verbs"]), greeting["task"], True, ""
        if self._started is not None and not self._started.done():
            self._started.set_result(None)

    async def _process_next(self) -> None:
        """Process the next request, or a batch of predictions."""
        await self._wait_for_work()
        first = self.waiting.popleft()
        self.in_progress = [first]
        while (
            first.verb == "predict"
            and self.waiting
            and self.waiting[0].verb == "predict"
            and sum(job.size for job in self.in_progress) + self.waiting[0].size <= self.limits.batch
        ):
            self.in_progress.append(self.waiting.popleft())
        if first.verb == "predict":
            message = {"verb": "predict", "texts": [text for job in self.in_progress for text in job.payload]}
        else:
            message = {"verb": first.verb, "how": first.payload}
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(message_frames.pack_message(message))
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise _ProcessEnded("the model's process has ended") from None
        self._deliver(await self._receive())

    def _deliver(self, reply: Mapping[str, Any]) -> None:
        jobs, self.in_progress = self.in_progress, []
        answer = reply.get("answer")
        for job in jobs:
            if job.future.done():
                answer = answer[job.size :] if job.verb == "predict" and answer is not None else answer
                continue
            self.answered += 1
            if "refused" in reply:
                job.future.set_exception(RequestRefused(reply["refused"]))
            elif "failed" in reply:
                job.future.set_exception(RuntimeError(reply["failed"]))
            elif job.verb == "predict":
                assert answer is not None
                job.future.set_result(answer[: job.size])
                answer = answer[job.size :]
            else:
                job.future.set_result(answer)

    async def _wait_for_work(self) -> None:
        """Wait for a request; raise if the process ends meanwhile."""
        process = self._process
        assert process is not None
        while not self.waiting:
            self._has_work.clear()
            work, end = asyncio.create_task(self._has_work.wait()), asyncio.create_task(process.wait())
            try:
                await asyncio.wait({work, end}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                work.cancel()
                end.cancel()
            if process.returncode is not None:
                raise _ProcessEnded(f"the model's process ended with code {process.returncode}")

    async def _receive(self) -> Any:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        try:
            head = await process.stdout.readexactly(message_frames.LENGTH.size)
            return message_frames.json.loads(await process.stdout.readexactly(message_frames.LENGTH.unpack(head)[0]))
        except asyncio.IncompleteReadError:
            await process.wait()
            raise _ProcessEnded(f"the model's process ended with code {process.returncode}") from None

    async def _kill(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    def state(self) -> dict[str, Any]:
        """The state for /health."""
        return {
            "ready": self.ready,
            "task": self.task,
            "verbs": list(self.verbs),
            "waiting": len(self.waiting),
            "answered": self.answered,
            "restarts": self.restarts,
            **({"problem": self.problem} if self.problem else {}),
        }


class _ProcessEnded(Exception):
    """The process has ended."""
