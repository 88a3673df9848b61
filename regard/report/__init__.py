"""The page that `make demo` and training write: a table, learning curves and what each model looked at."""

from regard.report.build import page

__all__ = ["page"]
