"""Look inside: `record` the weights, `edit` them, explain a prediction by them, and measure whether to believe it."""

from regard.inspect.attention_distance import Distances, by_distance
from regard.inspect.attention_maps import AttentionMap, attention_maps
from regard.inspect.edit import Edit, ablate, edit, hide, swap, uniform
from regard.inspect.faithfulness import Faithfulness, Measure, faithfulness, faithfulness_of_each, rank_correlation
from regard.inspect.head_importance import Head, importance
from regard.inspect.hop_overlap import Overlap, hop_overlap
from regard.inspect.integrated_gradients import integrated_gradients
from regard.inspect.prune import head_count, prune
from regard.inspect.record import Call, Recording, attends, record
from regard.inspect.rollout import rollout, stacked
from regard.inspect.token_attribution import Explanation, token_attribution

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
    "attention_maps",
    "by_distance",
    "edit",
    "faithfulness",
    "faithfulness_of_each",
    "head_count",
    "hide",
    "hop_overlap",
    "importance",
    "integrated_gradients",
    "prune",
    "rank_correlation",
    "record",
    "rollout",
    "stacked",
    "swap",
    "token_attribution",
    "uniform",
]
