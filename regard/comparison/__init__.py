"""Compare designs under one budget: `compare_designs` trains, measures, tests and reports."""

from regard.comparison.compare_designs import compare_designs
from regard.comparison.designs import Asked

__all__ = ["Asked", "compare_designs"]
