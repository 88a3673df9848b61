"""Look inside: `record` the weights, `edit` them, explain a prediction by them, and measure whether to believe it."""

from regard.inspect.distance import Distances, by_distance
from regard.inspect.edit import Edit, ablate, edit, hide, swap, uniform
from regard.inspect.explain import Explanation, explain
from regard.inspect.faithfulness import Faithfulness, Measure, faithfulness, faithfulness_of_each, rank_correlation
from regard.inspect.gradients import integrated_gradients
from regard.inspect.heads import Head, importance
from regard.inspect.maps import AttentionMap, maps
from regard.inspect.overlap import Overlap, overlap
from regard.inspect.prune import head_count, prune
from regard.inspect.record import Call, Recording, attends, record
from regard.inspect.rollout import rollout, stacked

__all__ = [
    "AttentionMap",
    "Call",
    "Distances",
    "Edit",
    "Explanation",
    "Faithfulness",
    "Head",
    "Measure",
    "Overlap",
    "Recording",
    "ablate",
    "attends",
    "by_distance",
    "edit",
    "explain",
    "faithfulness",
    "faithfulness_of_each",
    "head_count",
    "hide",
    "importance",
    "integrated_gradients",
    "maps",
    "overlap",
    "prune",
    "rank_correlation",
    "record",
    "rollout",
    "stacked",
    "swap",
    "uniform",
]
