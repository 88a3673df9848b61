"""Look inside: `record` the weights, `edit` them, explain a prediction by them, and measure whether to believe it."""

from regard.inspect.edit import ablate, edit, hide, uniform
from regard.inspect.explain import Explanation, explain
from regard.inspect.faithfulness import Faithfulness, faithfulness
from regard.inspect.maps import AttentionMap, maps
from regard.inspect.overlap import Overlap, overlap
from regard.inspect.record import Call, Recording, attends, record

__all__ = [
    "AttentionMap",
    "Call",
    "Explanation",
    "Faithfulness",
    "Overlap",
    "Recording",
    "ablate",
    "attends",
    "edit",
    "explain",
    "faithfulness",
    "hide",
    "maps",
    "overlap",
    "record",
    "uniform",
]
