"""Looks of small true models, whose weights `record` gives exactly; and a browser that shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_subjects import exact, missing, translation

from regard.explain.build import seen_by
from regard.tasks.classify.look import Look


@pytest.fixture(scope="module")
def masked():
    subject = missing()
    return Look(seen_by(subject)), exact(subject), subject


@pytest.fixture(scope="module")
def translated():
    subject = translation()
    return Look(seen_by(subject)), exact(subject), subject


@pytest.fixture(scope="module")
def two():
    one, other = missing(0), missing(1)
    return Look(seen_by(one)).beside(Look(seen_by(other))), exact(one), exact(other)


class Page:
    """A page in the chromium, with everything it complained of."""

    def __init__(self, context, path: Path, fragment: str):
        self.page = context.new_page()
        self.errors: list[str] = []
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(path.as_uri() + fragment)
        self.page.locator("#large").scroll_into_view_if_needed()
        self.page.wait_for_selector("#large[data-shown]", timeout=10000)

    def shown(self) -> list[str]:
        return self.page.get_attribute("#large", "data-shown").split("/")

    def until(self, place: int, value: str) -> None:
        """Wait until this part of what is shown is so."""
        self.page.wait_for_function(
            "([place, value]) => document.getElementById('large').dataset.shown.split('/')[place] === value",
            arg=[place, value],
            timeout=10000,
        )

    def go(self, fragment: str) -> None:
        self.page.evaluate("() => { delete document.getElementById('large').dataset.shown }")
        self.page.evaluate("hash => { location.hash = hash }", fragment)
        self.page.wait_for_selector("#large[data-shown]", timeout=10000)

    def cells(self) -> list[list[float]]:
        """The numbers of the heatmap, cell by cell, as the readout says them while the arrow keys walk over it."""
        self.page.locator("#heatmap").focus()
        return self.page.evaluate(
            """() => {
                const map = document.getElementById("heatmap"), out = document.getElementById("readout");
                const press = (key) => map.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
                const place = () => out.dataset.row + "/" + out.dataset.column;
                const until = (key) => { let at; do { at = place(); press(key); } while (place() !== at); };
                press("ArrowLeft"); until("ArrowLeft"); until("ArrowUp");
                const rows = [];
                for (;;) {
                    const row = [], first = place();
                    for (;;) {
                        row.push(Number(out.dataset.value));
                        const at = place();
                        press("ArrowRight");
                        if (place() === at) break;
                    }
                    rows.push(row);
                    until("ArrowLeft");
                    press("ArrowDown");
                    if (place() === first) return rows;
                }
            }"""
        )


@pytest.fixture
def show(chromium, tmp_path):
    contexts = []

    def opener(look: Look, fragment: str = "", width: int = 1200, **options) -> Page:
        path = look.save(tmp_path / "page.html")
        context = chromium.new_context(viewport={"width": width, "height": 900}, accept_downloads=True, **options)
        contexts.append(context)
        return Page(context, path, fragment)

    yield opener
    for context in contexts:
        context.close()
