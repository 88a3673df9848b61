"""Compare models under one budget: train, evaluate, test differences for significance, and report."""

from regard.comparison.comparison_result import ComparisonResult
from regard.comparison.request import ComparisonRequest
from regard.comparison.run_comparison import ComparisonStopped, compare, run_comparison

__all__ = ["ComparisonRequest", "ComparisonResult", "ComparisonStopped", "compare", "run_comparison"]
