"""The page that shows attention: a plain dictionary in, one self-contained HTML document out; or a drawing of the text
alone, as SVG or PNG."""

from regard.pages.attention_page import page
from regard.pages.notebook import notebook
from regard.pages.quantized_maps import quantise
from regard.pages.svg import svg

__all__ = ["notebook", "page", "quantise", "svg"]
