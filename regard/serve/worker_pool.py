"""Each model in a process of its own, with a bounded queue before it. A process that dies, or is stopped because a
request took too long, is started again; what it was working on is asked once more."""

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

WORKER, WITH_FILES = "regard.serve.worker", "regard.cli.worker"
"""The second imports a user's own files first, which only the command line may."""


class Busy(Exception):
    """The queue is full."""


class Late(Exception):
    """The request took too long."""


class Died(Exception):
    """The process died on this request, each time."""


class Refused(UserError):
    """The model says what is wrong with the question."""


@dataclass(eq=False)
class Job:
    verb: str
    given: Any
    done: asyncio.Future
    tries: int = 0
    size: int = 1


@dataclass
class Crew:
    """A model: its folder, its process, and what waits for it."""

    name: str
    folder: Path
    limits: Limits
    imports: tuple[Path, ...] = ()
    command: tuple[str, ...] = ()
    waiting: deque[Job] = field(default_factory=deque)
    flying: list[Job] = field(default_factory=list)
    restarts: int = 0
    verbs: tuple[str, ...] = ()
    task: str = ""
    ready: bool = False
    answered: int = 0
    problem: str = ""

    def __post_init__(self) -> None:
        self._more = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._runner: asyncio.Task | None = None
        self._started: asyncio.Future | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """The first process; a folder that cannot be opened is an error here."""
        self._started = asyncio.get_running_loop().create_future()
        self._runner = asyncio.create_task(self._run())
        await self._started

    async def stop(self) -> None:
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        await self._kill()
        for job in [*self.waiting, *self.flying]:
            if not job.done.done():
                job.done.set_exception(Died("the server is stopping"))
        self.waiting.clear()

    async def ask(self, verb: str, given: Any, size: int = 1) -> Any:
        """The answer of the model, within the time there is."""
        if len(self.waiting) >= self.limits.queue:
            raise Busy(f"{self.name} is busy: {len(self.waiting)} requests wait; try again")
        job = Job(verb, given, asyncio.get_running_loop().create_future(), size=size)
        self.waiting.append(job)
        self._more.set()
        try:
            return await asyncio.wait_for(asyncio.shield(job.done), self.limits.timeout)
        except TimeoutError:
            self._give_up(job)
            raise Late(f"no answer within {self.limits.timeout:g} seconds") from None
        except asyncio.CancelledError:  # the client went away
            if job in self.waiting:
                self.waiting.remove(job)
            job.done.cancel()
            raise

    def _give_up(self, job: Job) -> None:
        job.done.cancel()
        if job in self.waiting:
            self.waiting.remove(job)
        elif job in self.flying and self._process is not None and self._process.returncode is None:
            self._process.kill()  # it may never come back; the others that it worked on are asked again

    async def _run(self) -> None:
        pause = 0.05
        while True:
            try:
                await self._spawn()
                pause = 0.05
                while True:
                    await self._serve()
            except _Gone as gone:
                self.ready = False
                self.problem = str(gone)
                await self._kill()
                if self._started is not None and not self._started.done():
                    self._started.set_exception(UserError(self.problem or f"{self.folder} cannot be opened"))
                    return
                self.restarts += 1
                self._again()
                await asyncio.sleep(pause)
                pause = min(5.0, 2 * pause)

    def _again(self) -> None:
        """What was being worked on goes to the front of the queue, or is given up."""
        for job in reversed(self.flying):
            if job.done.done():
                continue
            job.tries += 1
            if job.tries >= self.limits.tries:
                job.done.set_exception(Died("the model's process died while it worked on this request"))
            else:
                self.waiting.appendleft(job)
        self.flying = []
        if self.waiting:
            self._more.set()

    async def _spawn(self) -> None:
        path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
        self._process = await asyncio.create_subprocess_exec(
            *(self.command or (sys.executable, "-m", WITH_FILES if self.imports else WORKER)),
            *(str(self.folder), *map(str, self.imports)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the server, which then ends them
        )
        hello = await self._read()
        if "fatal" in hello:
            raise _Gone(hello["fatal"])
        self.verbs, self.task, self.ready, self.problem = tuple(hello["verbs"]), hello["task"], True, ""
        if self._started is not None and not self._started.done():
            self._started.set_result(None)

    async def _serve(self) -> None:
        """The next request, or several predictions at once."""
        await self._next()
        first = self.waiting.popleft()
        self.flying = [first]
        while (
            first.verb == "predict"
            and self.waiting
            and self.waiting[0].verb == "predict"
            and sum(job.size for job in self.flying) + self.waiting[0].size <= self.limits.batch
        ):
            self.flying.append(self.waiting.popleft())
        if first.verb == "predict":
            message = {"verb": "predict", "texts": [text for job in self.flying for text in job.given]}
        else:
            message = {"verb": first.verb, "how": first.given}
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(message_frames.pack(message))
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise _Gone("the model's process went away") from None
        self._deliver(await self._read())

    def _deliver(self, said: Mapping[str, Any]) -> None:
        jobs, self.flying = self.flying, []
        found = said.get("answer")
        for job in jobs:
            if job.done.done():
                found = found[job.size :] if job.verb == "predict" and found is not None else found
                continue
            self.answered += 1
            if "refused" in said:
                job.done.set_exception(Refused(said["refused"]))
            elif "failed" in said:
                job.done.set_exception(RuntimeError(said["failed"]))
            elif job.verb == "predict":
                assert found is not None
                job.done.set_result(found[: job.size])
                found = found[job.size :]
            else:
                job.done.set_result(found)

    async def _next(self) -> None:
        """Wait for work, and notice if the process dies meanwhile."""
        process = self._process
        assert process is not None
        while not self.waiting:
            self._more.clear()
            more, gone = asyncio.create_task(self._more.wait()), asyncio.create_task(process.wait())
            try:
                await asyncio.wait({more, gone}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                more.cancel()
                gone.cancel()
            if process.returncode is not None:
                raise _Gone(f"the model's process ended with code {process.returncode}")

    async def _read(self) -> Any:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        try:
            head = await process.stdout.readexactly(message_frames.LENGTH.size)
            return message_frames.json.loads(await process.stdout.readexactly(message_frames.LENGTH.unpack(head)[0]))
        except asyncio.IncompleteReadError:
            await process.wait()
            raise _Gone(f"the model's process ended with code {process.returncode}") from None

    async def _kill(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    def state(self) -> dict[str, Any]:
        return {
            "ready": self.ready,
            "task": self.task,
            "verbs": list(self.verbs),
            "waiting": len(self.waiting),
            "answered": self.answered,
            "restarts": self.restarts,
            **({"problem": self.problem} if self.problem else {}),
        }


class _Gone(Exception):
    """The process is not there any more."""
