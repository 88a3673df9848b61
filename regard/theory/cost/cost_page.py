"""The cost card as a self-contained HTML page, with plots of how the cost of layers grows and where it crosses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.pages.assets import render_document
from regard.pages.plots import line_plot
from regard.theory.cost import crossover
from regard.theory.cost.cost_card import CostCard

TEMPLATES = Path(__file__).parent.parent / "templates"
TITLES = {
    "params": "parameters",
    "forward": "FLOPs, forward pass",
    "backward": "FLOPs, backward pass",
    "scores": "bytes of all attention scores",
    "activations": "bytes saved for the backward pass",
    "kv_cache": "bytes of the KV cache",
    "steps": "sequential steps",
    "products": "sequential matrix products",
    "path": "longest path between positions, in layers",
    "span": "span, with sums as trees",
    "serial": "span, with serial inner products",
}
AGREES = {True: "yes", False: "NO", None: "–"}


def render_page(card: CostCard, d: int) -> str:
    """The page as HTML. d is the width of the layers in the plots."""
    formula = card.formula or {}
    rows = [
        {
            "title": title,
            "formula": _format_count(formula.get(key)),
            "counted": _format_count(card.counted.get(key)),
            "agrees": AGREES[card.agrees[key]] if key in card.agrees else "",
        }
        for key, title in TITLES.items()
        if formula.get(key) is not None or card.counted.get(key) is not None
    ]
    return render_document(
        "cost.html.j2",
        folders=(TEMPLATES,),
        css=["theme.css", "text.css", "report.css"],
        js=["hover.js"],
        card=card.as_dict(),
        rows=rows,
        plots=growth_plots(card.sizes["n"], d),
    )


def growth_plots(n: int, d: int) -> list[dict[str, Any]]:
    """FLOPs of one layer of each kind, by length and by width."""
    lengths = crossover.crossover_lengths(d)
    marks = [(float(length), f"{name.upper()} crosses") for name, length in lengths.items() if length is not None]
    by_length, by_width = crossover.flops_by_length(d, max(2 * n, 8 * d)), crossover.flops_by_width(n, max(1024, 2 * d))
    return [
        {
            "title": f"By length: one layer of width {d}",
            "svg": line_plot(by_length, x_label="n", y_label="FLOPs, forward pass", log="xy", marks=marks),
            "text": f"With projections, self-attention costs as much as a GRU at n = {lengths['gru']} and as an LSTM "
            f"at n = {lengths['lstm']}; a plain RNN costs less at every length.",
        },
        {
            "title": f"By width: one layer on {n} positions",
            "svg": line_plot(by_width, x_label="d", y_label="FLOPs, forward pass", log="xy"),
            "text": "If d is much larger than n, the projections dominate, and everything grows with d².",
        },
    ]


def write_page(card: CostCard, d: int, out: Path) -> Path:
    """Write the page to a file."""
    if out.suffix.lower() != ".html":
        raise UserError(f"the page is HTML: --out must end in .html, not {str(out)!r}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(render_page(card, d), encoding="utf-8")
    return out


def _format_count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
