"""No position encoding. Without a causal or local mask, attention then cannot see the order of the tokens."""

from __future__ import annotations

from regard.attention.positions.position_encoding import PositionEncoding


class NoPositions(PositionEncoding):
    """No position encoding."""

    name, title, kind = "none", "none", "none"
