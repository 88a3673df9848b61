"""The cost card as one self-contained page, with plots of how layers grow and where they cross."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.pages.assets import render_document
from regard.pages.plots import line_plot
from regard.theory.cost import crossover
from regard.theory.cost.cost_card import CostCard

HERE = Path(__file__).parent.parent / "templates"
WORDS = {
    "params": "parameters",
    "forward": "FLOPs forward",
    "backward": "FLOPs backward",
    "scores": "bytes of scores, were all kept",
    "activations": "bytes kept for the backward pass",
    "kv_cache": "bytes of KV cache",
    "steps": "sequential steps",
    "products": "matrix products one after the other",
    "path": "longest path between places, in layers",
    "span": "span, sums as trees",
    "serial": "span, inner products serial",
}
AGREE = {True: "yes", False: "NO", None: "–"}


def page(card: CostCard, d: int) -> str:
    n = card.sizes["n"]
    formula = card.formula or {}
    rows = [
        {
            "word": word,
            "formula": _figure(formula.get(key)),
            "counted": _figure(card.counted.get(key)),
            "agree": AGREE[card.agrees[key]] if key in card.agrees else "",
        }
        for key, word in WORDS.items()
        if formula.get(key) is not None or card.counted.get(key) is not None
    ]
    return render_document(
        "cost.html.j2",
        folders=(HERE,),
        css=["theme.css", "text.css", "report.css"],
        js=["hover.js"],
        card=card.as_dict(),
        rows=rows,
        plots=growth(n, d),
    )


def growth(n: int, d: int) -> list[dict[str, Any]]:
    """One layer of each kind against n and against d."""
    cross = crossover.crossover_lengths(d)
    marks = [(float(at), f"{name.upper()} crosses") for name, at in cross.items() if at is not None]
    longest = max(2 * n, 8 * d)
    return [
        {
            "title": f"Against the length: one layer of width {d}",
            "svg": line_plot(
                crossover.flops_by_length(d, longest), x_label="n", y_label="FLOPs forward", log="xy", marks=marks
            ),
            "text": f"With projections, self-attention costs as much as a GRU at n = {cross['gru']} and as an LSTM at "
            f"n = {cross['lstm']}; a plain RNN costs less at every length.",
        },
        {
            "title": f"Against the width: one layer on {n} places",
            "svg": line_plot(
                crossover.flops_by_width(n, max(1024, 2 * d)), x_label="d", y_label="FLOPs forward", log="xy"
            ),
            "text": "Once d is well beyond n the projections decide, and everything grows with d².",
        },
    ]


def write(card: CostCard, d: int, out: Path) -> Path:
    if out.suffix.lower() != ".html":
        raise UserError(f"the page is HTML: give --out a name that ends in .html, not {str(out)!r}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(card, d), encoding="utf-8")
    return out


def _figure(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
