"""Placement of the norms in a Transformer, by the name in a config.

"pre" puts a norm before each sublayer and one at the end (GPT-2). "post" puts a norm after each residual addition and
one at the start (BERT).
"""

from __future__ import annotations

from torch import nn

from regard.layers.transformer_blocks import PostNorm, PreNorm, Residual

RESIDUALS: dict[str, type[Residual]] = {"pre": PreNorm, "post": PostNorm}
FIRST_NORMS: dict[str, type[nn.Module]] = {"pre": nn.Identity, "post": nn.LayerNorm}
LAST_NORMS: dict[str, type[nn.Module]] = {"pre": nn.LayerNorm, "post": nn.Identity}
EPS = {"pre": 1e-5, "post": 1e-12}
"""The constant that the norm adds to the variance: that of torch, and that of BERT."""
