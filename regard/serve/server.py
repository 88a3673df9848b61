"""The server itself: models started, addresses open, until Ctrl-C."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from regard.errors import UserError
from regard.serve.app import make_app, new_token
from regard.serve.limits import Limits
from regard.serve.worker_pool import Crew

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
    """Serve until it is stopped; with `check` only start, ask each model one question, and leave."""
    limits = limits or Limits()
    local = loopback(host)
    if not local and token is None:
        token = new_token()
    crews = {name: Crew(name, folder, limits, tuple(imports)) for name, folder in names(runs).items()}
    asyncio.run(_serve(crews, host, port, token, limits, local, check))


async def _serve(
    crews: dict[str, Crew], host: str, port: int, token: str | None, limits: Limits, local: bool, check: bool
) -> None:
    listener = _listen(host, port)
    try:
        for name, crew in crews.items():  # one after the other: each loads its weights
            await crew.start()
            print(f"{name}: {crew.task}, can {', '.join(crew.verbs)} ({crew.folder})", flush=True)
        app = make_app(crews, limits=limits, token=token, hosts=LOOPBACK | {host} if local else None)
        shown = f"[{host}]" if ":" in host else host
        print(f"http://{shown}:{listener.getsockname()[1]}/{f'?token={token}' if token else ''}", flush=True)
        if check:
            for name, crew in crews.items():
                found = (await crew.ask("predict", ["This is a question."]))[0]
                print(f"{name} {'answers' if 'answer' in found else 'says: ' + found['error']}", flush=True)
            return
        config = uvicorn.Config(app, log_level="warning", h11_max_incomplete_event_size=8 * limits.characters + 65_536)
        await uvicorn.Server(config).serve(sockets=[listener])
    finally:
        for crew in crews.values():
            await crew.stop()
        listener.close()


def names(runs: Sequence[Path]) -> dict[str, Path]:
    """A name for each folder: its last part, or more of the path where two are alike."""
    found: dict[str, Path] = {}
    for run in runs:
        parts = Path(run).absolute().parts
        name = next((n for i in range(1, len(parts)) if (n := "/".join(parts[-i:])) not in found), None)
        if name is None or Path(run).absolute() in [f.absolute() for f in found.values()]:
            raise UserError(f"{run} is given twice")
        found[name] = Path(run)
    return found


def loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
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
