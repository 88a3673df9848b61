"""The constructions with sliders: margin, strength, variance, number of heads; one page that needs nothing else."""

from __future__ import annotations

from pathlib import Path

from regard.pages.assets import document
from regard.pages.training_report import HERE as REPORT

HERE = Path(__file__).parent / "templates"
KEYS = 10


def page() -> str:
    return document(
        "sliders.html.j2",
        folders=(HERE, REPORT),
        css=["theme.css", "text.css", "report.css", "verify.css"],
        js=["sliders.js"],
        n=KEYS,
    )


def write(out: Path) -> Path:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(), encoding="utf-8")
    return out
