"""Runs every bad input of tests/cli/bad_inputs.py and writes what each prints to docs/bad-inputs.md.

python docs/bad_inputs.py
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).absolute().parent
sys.path.insert(0, str(HERE.parent / "tests" / "cli"))

from bad_inputs import CASES  # noqa: E402
from conftest import write_reviews  # noqa: E402

from regard.cli import main  # noqa: E402


def run(command: str) -> tuple[int, str]:
    """Exit code and what was printed, with both streams in order."""
    printed = io.StringIO()
    sys.argv = ["regard", *shlex.split(command)]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = int(leaving.code or 0)
    return code, printed.getvalue().strip()


def shown(text: str, says: str) -> str:
    """The message, or of a run that went well the line that counts."""
    lines = text.splitlines()
    found = [line for line in lines if line.startswith("regard:") or says in line] or lines[-1:]
    return found[0].replace("|", "\\|")


def table() -> str:
    rows = []
    for bad in CASES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.chdir(folder)
            write_reviews(folder / "reviews.csv")
            run("train classify reviews.csv --steps 3 --out run --quiet")
            bad.prepare(folder)
            code, text = run(bad.command)
            text = text.replace(f"{folder.resolve()}/", "")
            if (folder / "full").is_mount():
                subprocess.run(["umount", str(folder / "full")], check=True)
        rows.append(f"| {bad.title} | `regard {bad.command}` | {code} | {shown(text, bad.says)} |")
    head = "| what is wrong | typed | exit | what it prints |\n|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    about = "Made by `python docs/bad_inputs.py`; tested by tests/cli/test_bad_input.py."
    page = f"# Bad inputs, and what each prints\n\n{about}\n\n{table()}"
    (HERE / "bad-inputs.md").write_text(page, encoding="utf-8")
