"""A model's own process: `python -m regard.serve.worker RUN`. It reads questions from standard input and answers on
what was standard output, until the server closes its end."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any, BinaryIO

from regard.errors import UserError
from regard.serve import message_frames

PICTURED = ("images", "caption")
"""Runs that take the name of a file where others take a text: whoever asks would read the files of this machine."""


def main(folder: str) -> int:
    """Whatever is printed by others goes to standard error, so that only messages are on the way to the server."""
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        from regard.hub.load_any import opened
        from regard.serve.predictions import looked, predictions

        model = opened(folder)
        if getattr(model, "settings", None) is not None and model.settings.task in PICTURED:
            raise UserError(f"{folder} reads pictures from files, which is not for others to ask: use regard look")
    except (UserError, OSError) as problem:
        _send(out, {"fatal": str(problem)})
        return 2
    task = "imported" if not hasattr(model, "settings") else model.settings.task
    _send(out, {"ready": True, "verbs": list(model.verbs), "task": task})
    while (asked := message_frames.read(sys.stdin.buffer)) is not None:
        try:
            if asked["verb"] == "predict":
                answer: Any = predictions(model, asked["texts"])
            else:
                answer = looked(model, **asked["how"])
            _send(out, {"answer": answer})
        except UserError as problem:
            _send(out, {"refused": str(problem)})
        except Exception:  # a bug is the answer to one question, and no end of the process
            traceback.print_exc()
            _send(out, {"failed": traceback.format_exc(limit=1).strip().splitlines()[-1]})
    return 0


def _send(out: BinaryIO, message: Any) -> None:
    data = memoryview(message_frames.pack(message))
    while len(data):
        data = data[out.write(data) or 0 :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
