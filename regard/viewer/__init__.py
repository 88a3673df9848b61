"""The page that shows attention: a plain dictionary in, one self-contained HTML document out; or a drawing of the text
alone, as SVG or PNG."""

from regard.viewer.build import page
from regard.viewer.maps import quantise
from regard.viewer.notebook import notebook
from regard.viewer.svg import svg

__all__ = ["notebook", "page", "quantise", "svg"]
