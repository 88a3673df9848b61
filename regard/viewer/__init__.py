"""The page that shows attention: a plain dictionary in, one self-contained HTML document out."""

from regard.viewer.build import page
from regard.viewer.maps import quantise
from regard.viewer.notebook import notebook

__all__ = ["notebook", "page", "quantise"]
