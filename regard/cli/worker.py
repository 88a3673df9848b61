"""A served model's process, with a user's own files imported first: `python -m regard.cli.worker RUN FILE.py...`."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    from regard.config.plugins import import_files
    from regard.serve.worker import main as work

    import_files([Path(file) for file in sys.argv[2:]])
    return work(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
