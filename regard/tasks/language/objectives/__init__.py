"""Objectives of language models, one file each. Batches depend on (seed, epoch, items) only.

causal   the next token                                  gpt, ngram-gpt, cnn
masked   hidden tokens                                   bert
blank    every token, from the tokens on both sides      birnn
span     a span that was removed                         gpt, ngram-gpt, cnn
"""

from __future__ import annotations

from regard.tasks.language.objectives.causal import CausalObjective
from regard.tasks.language.objectives.cloze import ClozeObjective
from regard.tasks.language.objectives.masked import MaskedObjective
from regard.tasks.language.objectives.span import SpanObjective
from regard.tasks.language.objectives.token_objective import TokenObjective

OBJECTIVES: dict[str, type[TokenObjective]] = {
    "causal": CausalObjective,
    "masked": MaskedObjective,
    "blank": ClozeObjective,
    "span": SpanObjective,
}
SLIDING = tuple(name for name, objective in OBJECTIVES.items() if objective.uses_sliding_window)
"""Objectives whose evaluation has a stride."""
