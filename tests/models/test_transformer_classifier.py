"""The Transformer classifier: invalid sizes."""

from __future__ import annotations

import pytest

from regard.errors import UserError
from regard.models import transformer_classifier


@pytest.mark.parametrize("sizes", [{"layers": 0}, {"hidden": -1}, {"heads": 0}, {"dim": -12}], ids=str)
def test_a_size_below_one_is_an_error(sizes):
    ((name, size),) = sizes.items()
    with pytest.raises(UserError, match=f"{name} must be at least 1, not {size}"):
        transformer_classifier.TransformerClassifierConfig(**{"dim": 12, "heads": 2, **sizes}).build(31, 3)
