"""The encoder that names a class: what it says when it cannot be built."""

from __future__ import annotations

import pytest

from regard.errors import UserError
from regard.models import transformer_classifier


@pytest.mark.parametrize("sizes", [{"layers": 0}, {"hidden": -1}, {"heads": 0}, {"dim": -12}], ids=str)
def test_sizes_below_one_are_told(sizes):
    ((name, given),) = sizes.items()
    with pytest.raises(UserError, match=f"{name} must be at least 1, and was given {given}"):
        transformer_classifier.TransformerClassifierConfig(**{"dim": 12, "heads": 2, **sizes}).build(31, 3)
