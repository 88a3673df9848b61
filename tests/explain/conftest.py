"""Looks of small models, with their exact attention weights, and a browser that opens the pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_explainers import exact_maps, masked_token_explainer, translation_explainer

from regard.explain.build import build_look
from regard.explain.look_result import Look


@pytest.fixture(scope="module")
def masked():
    explainer = masked_token_explainer()
    return build_look(explainer), exact_maps(explainer), explainer


@pytest.fixture(scope="module")
def translated():
    explainer = translation_explainer()
    return build_look(explainer), exact_maps(explainer), explainer


@pytest.fixture(scope="module")
def two():
    one, other = masked_token_explainer(0), masked_token_explainer(1)
    return build_look(one).compare_with(build_look(other)), exact_maps(one), exact_maps(other)


class Page:
    """A page in the browser, with its errors."""

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
        """Wait until this part of the page's state has a value."""
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
        """The values of the heatmap, read cell by cell with the arrow keys."""
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
