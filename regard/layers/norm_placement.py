"""Where the norms of a stack stand, by the name that a Config uses: before each part and once at the end (pre, as in
GPT-2), or after each part and once at the start (post, as in BERT)."""

from __future__ import annotations

from torch import nn

from regard.layers.transformer_blocks import PostNorm, PreNorm, Residual

RESIDUALS: dict[str, Residual] = {"pre": PreNorm, "post": PostNorm}
FIRST_NORMS: dict[str, type[nn.Module]] = {"pre": nn.Identity, "post": nn.LayerNorm}
LAST_NORMS: dict[str, type[nn.Module]] = {"pre": nn.LayerNorm, "post": nn.Identity}
EPS = {"pre": 1e-5, "post": 1e-12}
"""What is added to the variance: torch's, and BERT's."""
