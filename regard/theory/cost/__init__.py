"""The cost of a layer, a model or a run: by formula, and counted on the computation itself."""

from regard.theory.cost.trace import Trace

__all__ = ["Trace"]
