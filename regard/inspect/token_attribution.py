"""One weight for each token: the attention that reaches the output, along the way from the document to its words.

    one level     the weights of the pooling layer (the mean over heads and hops)
    two levels    weight of the sentence × weight of the word in it (Yang et al. 2016, figure 5); where sentences are
                  read twice, onward and back, the mean of both
    a committee   the mean over its members, whose sites start with `members.0.`, `members.1.`, ...

It is a picture of where the last reading happens, not a proof of what decided; `faithfulness` measures the difference.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.inspect.attention_maps import AttentionMap


@dataclass(frozen=True)
class Explanation:
    """tokens (n,) sum to one; where the model reads in two levels, sentences (s,) and `within` (n,), the weight of each
    token in its own sentence; where it reads several times, hops (r, n); how, in words for the reader."""

    tokens: Tensor
    sentences: Tensor | None
    how: str
    within: Tensor | None = None
    hops: Tensor | None = None


def token_attribution(found: list[AttentionMap]) -> Explanation | None:
    """What the output read, or None where nothing reads for the document as a whole."""
    members: dict[str, list[AttentionMap]] = defaultdict(list)
    for one in found:
        members[re.sub(r"^(members\.\d+\.)?.*", r"\1", one.site)].append(one)
    each = [spoken for maps in members.values() if (spoken := _explain(maps)) is not None]
    return each[0] if len(each) == 1 else _mean(each) if each else None


def _mean(each: list[Explanation]) -> Explanation:
    """Of members of one design, so they have the same parts."""

    def mean(parts: list[Tensor | None]) -> Tensor | None:
        given = [part for part in parts if part is not None]
        return torch.stack(given).mean(0) if given else None

    tokens, sentences = torch.stack([e.tokens for e in each]).mean(0), mean([e.sentences for e in each])
    within = mean([e.within for e in each])
    hops = [e.hops for e in each if e.hops is not None]
    how = f"{each[0].how}, mean of {len(each)} members"
    return Explanation(tokens, sentences, how, within=within, hops=torch.cat(hops) if hops else None)


def _explain(found: list[AttentionMap]) -> Explanation | None:
    ends = [m for m in found if m.rows in ("document", "hops")]
    if not ends:
        return None
    top = ends[-1].weights.mean((0, 1))
    if ends[-1].columns == "tokens":
        hops = ends[-1].weights.flatten(0, 1)
        how = "the weights with which the last layer's words are pooled"
        if len(hops) == 1:
            return Explanation(top, None, how)
        return Explanation(top, None, f"{how}, mean of {len(hops)} hops", hops=hops)
    below = [m for m in found if m.rows == ends[-1].columns and m.columns == "tokens"]
    if not below:
        return None
    words = torch.stack([m.weights.mean(0) for m in below]).mean(0)
    how = "weight of the sentence times weight of the word in it"
    how = f"{how}, mean of {len(below)} readings" if len(below) > 1 else how
    return Explanation(top @ words, top, how, within=words.sum(0))
