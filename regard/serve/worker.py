"""The process of a model: `python -m regard.serve.worker RUN`.

It reads requests from standard input and writes replies to standard output, until the server closes its end.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any, BinaryIO

from regard.errors import UserError
from regard.serve import message_frames

IMAGE_TASKS = ("images", "caption")
"""Tasks whose input is a file name: a client could read files of this machine."""


def main(folder: str) -> int:
    """Serve a run. Anything that is printed goes to standard error, so that standard output has replies only."""
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        from regard.hub.load_any import load_any
        from regard.serve.predictions import build_look, predict_texts

        model = load_any(folder)
        if getattr(model, "settings", None) is not None and model.settings.task in IMAGE_TASKS:
            raise UserError(f"{folder} reads images from files and cannot be served; use regard look")
    except (UserError, OSError) as problem:
        _send(out, {"fatal": str(problem)})
        return 2
    task = "imported" if not hasattr(model, "settings") else model.settings.task
    _send(out, {"ready": True, "verbs": list(model.verbs), "task": task})
    while (request := message_frames.read_message(sys.stdin.buffer)) is not None:
        try:
            if request["verb"] == "predict":
                answer: Any = predict_texts(model, request["texts"])
            else:
                answer = build_look(model, **request["how"])
            _send(out, {"answer": answer})
        except UserError as problem:
            _send(out, {"refused": str(problem)})
        except Exception:  # a bug fails one request, and not the process
            traceback.print_exc()
            _send(out, {"failed": traceback.format_exc(limit=1).strip().splitlines()[-1]})
    return 0


def _send(out: BinaryIO, message: Any) -> None:
    data = memoryview(message_frames.pack_message(message))
    while len(data):
        data = data[out.write(data) or 0 :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
