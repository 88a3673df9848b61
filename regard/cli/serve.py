"""`regard serve`: models behind a page and a few addresses, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.errors import UserError


def serve(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders, or folders of `regard import` or Hugging Face.", metavar="RUN...")
    ],
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine a token is asked for.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="REGARD_TOKEN", help="What clients must know; made up if needed.")
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Requests that may wait for a model; then it is busy.")] = 64,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds a request may take, waiting included.")] = 60.0,
    characters: Annotated[int, typer.Option(min=1, help="Of a text, at most.")] = 20_000,
    check: Annotated[bool, typer.Option("--check", help="Start, ask each model once, and leave.")] = False,
    import_: Annotated[
        list[Path] | None, typer.Option("--import", metavar="FILE.py", help="Your own mechanisms, as in training.")
    ] = None,
) -> None:
    """Serve the page live: write a text, choose a model, look. Each model has a process of its own, which is started
    again if it dies. Addresses: /predict, /look, /health; /openapi.json describes them.

    \b
    Examples:
      regard serve runs/han --check
      regard serve runs/han runs/bert --port 0 --check
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise UserError('`regard serve` wants FastAPI and uvicorn: pip install "regard[serve]"') from None
    from regard.serve.limits import Limits
    from regard.serve.server import run_server

    limits = Limits(queue=queue, timeout=timeout, characters=characters)
    run_server(runs, host=host, port=port, token=token, limits=limits, imports=import_ or [], check=check)
