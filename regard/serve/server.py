"""Start the models and serve them over HTTP until Ctrl-C."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from regard.errors import UserError
from regard.serve.app import build_app, new_token
from regard.serve.limits import Limits
from regard.serve.worker_pool import ModelWorker

LOOPBACK = {"127.0.0.1", "localhost", "[::1]"}


def run_server(
    runs: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    limits: Limits | None = None,
    imports: Sequence[Path] = (),
    check: bool = False,
) -> None:
    """Serve until stopped. With `check` only start, send each model one request, and return."""
    limits = limits or Limits()
    local = is_loopback(host)
    if not local and token is None:
        token = new_token()
    workers = {name: ModelWorker(name, folder, limits, tuple(imports)) for name, folder in name_models(runs).items()}
    asyncio.run(_serve(workers, host, port, token, limits, local, check))


async def _serve(
    workers: dict[str, ModelWorker], host: str, port: int, token: str | None, limits: Limits, local: bool, check: bool
) -> None:
    listener = _listen(host, port)
    try:
        for name, worker in workers.items():  # one after the other: each loads its weights
            await worker.start()
            print(f"{name}: {worker.task}, can {', '.join(worker.verbs)} ({worker.folder})", flush=True)
        app = build_app(workers, limits=limits, token=token, hosts=LOOPBACK | {host} if local else None)
        shown_host = f"[{host}]" if ":" in host else host
        print(f"http://{shown_host}:{listener.getsockname()[1]}/{f'?token={token}' if token else ''}", flush=True)
        if check:
            for name, worker in workers.items():
                reply = (await worker.ask("predict", ["This is a question."]))[0]
                print(f"{name} {'answers' if 'answer' in reply else 'says: ' + reply['error']}", flush=True)
            return
        config = uvicorn.Config(app, log_level="warning", h11_max_incomplete_event_size=8 * limits.characters + 65_536)
        await uvicorn.Server(config).serve(sockets=[listener])
    finally:
        for worker in workers.values():
            await worker.stop()
        listener.close()


def name_models(runs: Sequence[Path]) -> dict[str, Path]:
    """A name for each folder: its last part, or more of the path if names collide."""
    folders: dict[str, Path] = {}
    for run in runs:
        parts = Path(run).absolute().parts
        name = next((n for i in range(1, len(parts)) if (n := "/".join(parts[-i:])) not in folders), None)
        if name is None or Path(run).absolute() in [f.absolute() for f in folders.values()]:
            raise UserError(f"{run} is given twice")
        folders[name] = Path(run)
    return folders


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(kind, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(512)
    except OSError as problem:
        raise UserError(f"cannot listen at {host} port {port}: {problem.strerror or problem}; try --port 0") from None
    return listener
