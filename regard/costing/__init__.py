"""What a layer, a model or a run costs: by formula, and counted on the computation itself."""

from regard.costing.trace import Trace

__all__ = ["Trace"]
