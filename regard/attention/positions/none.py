"""No positions: content alone. Without a causal or local mask the order of the words then cannot be seen."""

from __future__ import annotations

from regard.attention.positions.position_encoding import PositionEncoding


class NoPositions(PositionEncoding):
    name, title, kind = "none", "none", "none"
