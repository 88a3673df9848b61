"""Pages and figures of attention: plain data in; an HTML document without dependencies, an SVG or a PNG out."""

from regard.pages.attention_page import render_page
from regard.pages.notebook import render_notebook
from regard.pages.quantized_maps import quantize
from regard.pages.svg import render_svg

__all__ = ["quantize", "render_notebook", "render_page", "render_svg"]
