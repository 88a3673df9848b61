"""Compare designs under one budget: `compare` trains, measures, tests and reports."""

from regard.compare.compare import compare
from regard.compare.plan import Asked

__all__ = ["Asked", "compare"]
