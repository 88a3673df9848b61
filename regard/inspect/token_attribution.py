"""One weight per token: the attention from the document to its words.

    one level     the weights of the pooling layer (mean over heads and hops)
    two levels    weight of the sentence × weight of the word in it (Yang et al. 2016, figure 5); if sentences are
                  read in both directions, the mean of both
    an ensemble   the mean over its members, whose layers start with `members.0.`, `members.1.`, ...

This is where the last layer attends to, not a proof of what decided; `faithfulness` measures the difference.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.inspect.attention_maps import AttentionMap


@dataclass(frozen=True)
class TokenAttribution:
    """Attention weights of the tokens of one text.

    Attributes:
        token_weights: (n,), sum to one.
        sentence_weights: (s,), in models with two levels.
        description: How the weights were computed, for the reader.
        within_sentence: (n,), the weight of each token in its own sentence.
        hop_weights: (r, n), in models with several hops.
    """

    token_weights: Tensor
    sentence_weights: Tensor | None
    description: str
    within_sentence: Tensor | None = None
    hop_weights: Tensor | None = None


def token_attribution(maps: list[AttentionMap]) -> TokenAttribution | None:
    """Attribute the output to the tokens; None if no layer pools the document."""
    members: dict[str, list[AttentionMap]] = defaultdict(list)
    for attention_map in maps:
        members[re.sub(r"^(members\.\d+\.)?.*", r"\1", attention_map.layer)].append(attention_map)
    results = [result for member in members.values() if (result := _attribute(member)) is not None]
    return results[0] if len(results) == 1 else _mean(results) if results else None


def _mean(results: list[TokenAttribution]) -> TokenAttribution:
    """Mean over members of one architecture, which have the same fields."""

    def mean(name: str) -> Tensor | None:
        tensors = [tensor for result in results if (tensor := getattr(result, name)) is not None]
        return torch.stack(tensors).mean(0) if tensors else None

    token_weights = mean("token_weights")
    assert token_weights is not None
    hops = [result.hop_weights for result in results if result.hop_weights is not None]
    return TokenAttribution(
        token_weights,
        mean("sentence_weights"),
        f"{results[0].description}, mean of {len(results)} members",
        within_sentence=mean("within_sentence"),
        hop_weights=torch.cat(hops) if hops else None,
    )


def _attribute(maps: list[AttentionMap]) -> TokenAttribution | None:
    pooling = [m for m in maps if m.rows in ("document", "hops")]
    if not pooling:
        return None
    last = pooling[-1]
    weights = last.weights.mean((0, 1))
    if last.columns == "tokens":
        hops = last.weights.flatten(0, 1)
        description = "weights with which the last layer pools the words"
        if len(hops) == 1:
            return TokenAttribution(weights, None, description)
        return TokenAttribution(weights, None, f"{description}, mean of {len(hops)} hops", hop_weights=hops)
    word_maps = [m for m in maps if m.rows == last.columns and m.columns == "tokens"]
    if not word_maps:
        return None
    words = torch.stack([m.weights.mean(0) for m in word_maps]).mean(0)
    description = "weight of the sentence times weight of the word in it"
    if len(word_maps) > 1:
        description = f"{description}, mean of {len(word_maps)} readings"
    return TokenAttribution(weights @ words, weights, description, within_sentence=words.sum(0))
