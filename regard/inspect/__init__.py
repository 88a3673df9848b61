"""Look inside a model: `record` attention weights, `edit` them, attribute predictions and measure faithfulness."""

from regard.inspect.attention_distance import AttentionDistance, attention_by_distance
from regard.inspect.attention_maps import AttentionMap, attention_maps
from regard.inspect.edit import Edit, ablate, edit, mask_keys, swap, uniform
from regard.inspect.faithfulness import Faithfulness, Metric, faithfulness, faithfulness_of_maps, rank_correlation
from regard.inspect.head_importance import HeadImportance, head_importance
from regard.inspect.hop_overlap import HopOverlap, hop_overlap
from regard.inspect.integrated_gradients import integrated_gradients
from regard.inspect.prune import count_heads, prune
from regard.inspect.record import AttentionCall, Recording, find_attention_layers, record, run_with_attention
from regard.inspect.rollout import rollout, self_attention_maps
from regard.inspect.token_attribution import TokenAttribution, token_attribution

__all__ = [
    "AttentionCall",
    "AttentionDistance",
    "AttentionMap",
    "Edit",
    "Faithfulness",
    "HeadImportance",
    "HopOverlap",
    "Metric",
    "Recording",
    "TokenAttribution",
    "ablate",
    "attention_by_distance",
    "attention_maps",
    "count_heads",
    "edit",
    "faithfulness",
    "faithfulness_of_maps",
    "find_attention_layers",
    "head_importance",
    "hop_overlap",
    "integrated_gradients",
    "mask_keys",
    "prune",
    "rank_correlation",
    "record",
    "rollout",
    "run_with_attention",
    "self_attention_maps",
    "swap",
    "token_attribution",
    "uniform",
]
