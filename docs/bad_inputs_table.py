"""Run every bad input of tests/cli/bad_inputs.py and write the messages to docs/bad-inputs.md.

python docs/bad_inputs_table.py
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).absolute().parent
sys.path.insert(0, str(HERE.parent / "tests" / "cli"))

from bad_inputs import CASES  # noqa: E402
from conftest import write_reviews  # noqa: E402

from regard.cli import main  # noqa: E402


def run_command(command: str) -> tuple[int, str]:
    """Exit code and output of both streams, in order."""
    output = io.StringIO()
    sys.argv = ["regard", *shlex.split(command)]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = int(exit_.code or 0)
    return code, output.getvalue().strip()


def select_line(text: str, message: str) -> str:
    """The error message, or the line with the message of a command that succeeded."""
    lines = text.splitlines()
    matches = [line for line in lines if line.startswith("regard:") or message in line] or lines[-1:]
    return matches[0].replace("|", "\\|")


def build_table() -> str:
    trained = Path(tempfile.mkdtemp()) / "run"
    os.chdir(trained.parent)
    write_reviews(trained.parent / "reviews.csv")
    run_command("train classify reviews.csv --steps 3 --out run --quiet")
    rows = []
    for bad in CASES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.chdir(folder)
            write_reviews(folder / "reviews.csv")
            shutil.copytree(trained, folder / "run")
            bad.prepare(folder)
            code, text = run_command(bad.command)
            text = text.replace(f"{folder.resolve()}/", "")
            if (folder / "full").is_mount():
                subprocess.run(["umount", str(folder / "full")], check=True)
        rows.append(f"| {bad.title} | `regard {bad.command}` | {code} | {select_line(text, bad.message)} |")
    head = "| input | command | exit code | message |\n|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    about = "Written by `python docs/bad_inputs_table.py`; tested by tests/cli/test_bad_input.py."
    page = f"# Bad inputs and their messages\n\n{about}\n\n{build_table()}"
    (HERE / "bad-inputs.md").write_text(page, encoding="utf-8")
