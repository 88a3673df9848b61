"""`regard serve`: serve models over HTTP, with a web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import Imports
from regard.errors import UserError


def serve(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders, imported models or Hugging Face folders.", metavar="RUN...")
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; other machines need a token to connect.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one.")] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="REGARD_TOKEN", help="Token that clients must send. [generated if needed]")
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Requests that may wait for a model.")] = 64,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for a request, including its wait.")] = 60.0,
    max_characters: Annotated[int, typer.Option(min=1, help="Largest length of a text.")] = 20_000,
    check: Annotated[bool, typer.Option("--check", help="Start, send each model one request, and exit.")] = False,
    import_: Imports = None,
) -> None:
    """Serve models over HTTP, with a web page.

    On the page you type a text, choose a model and look at its attention. Each model runs in its own process, which is
    restarted if it dies. Endpoints: /predict, /look and /health; /openapi.json describes them.

    \b
    Examples:
      regard serve runs/han --check
      regard serve runs/han runs/bert --port 0 --check
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise UserError('`regard serve` needs FastAPI and uvicorn: pip install "regard[serve]"') from None
    from regard.serve.limits import Limits
    from regard.serve.server import run_server

    limits = Limits(queue=queue, timeout=timeout, characters=max_characters)
    run_server(runs, host=host, port=port, token=token, limits=limits, imports=import_ or [], check=check)
