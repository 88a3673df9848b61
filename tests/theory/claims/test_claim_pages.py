"""The pages of verify hold what was found, and nothing from elsewhere."""

from __future__ import annotations

import json

import pytest

from regard.cli import app
from regard.theory import verify_claims
from regard.theory.claim import Claim, CheckResult, Plot, check_claim
from regard.theory.claim_pages import file_of, page, write
from regard.theory.sliders_page import page as sliders


def _outside(text: str) -> bool:
    return "https://" in text or "http://" in text.replace("http://www.w3.org", "")


def made(tests, id="one", topic="order"):
    plot = Plot("A plot", "n", "FLOPs", [{"name": "a", "x": [1, 10, 100], "y": [2, 200, 2000]}], "xy")
    found = CheckResult({"figure <b>": 0.25, "list": [1, 2.5]}, tests, {"counter": 3}, (plot,))
    return check_claim(Claim(id, topic, "exact", "It is so.", "a = b", lambda seed: found, "told"))


def test_a_page_says_verdict_figures_and_what_is_told():
    text = page("order", [made({"x": True}), made({"y": None}, "two"), made({"z": False}, "three")])
    for word in ("It is so.", "a = b", "0.25", "told", "cannot be said", 'class="verdict undecided"', "<svg"):
        assert word in text
    assert "1 holds, 1 fails, 1 undecided" in text
    assert "figure &lt;b&gt;" in text
    assert not _outside(text)


def test_pages_by_topic(tmp_path):
    rows = [made({"x": True}), made({"x": True}, "two", "constructions")]
    names = [path.name for path in write(rows, tmp_path)]
    assert names == ["order.html", "constructions.html", "sliders.html"]
    assert file_of("structured self-attention") == "structured-self-attention.html"


def test_sliders_need_nothing_else():
    text = sliders()
    assert not _outside(text)
    for slider in ("margin", "strength", "variance", "count", "beta"):
        assert f'id="{slider}"' in text


@pytest.mark.parametrize("verdict", [None, False])
def test_the_command_says_what_does_not_hold(monkeypatch, verdict):
    from typer.testing import CliRunner

    monkeypatch.setattr(
        verify_claims, "CLAIMS", [Claim("x", "order", "exact", "So.", "a", lambda seed: CheckResult({"a": 1}, {"t": verdict}))]
    )
    said = CliRunner().invoke(app, ["verify", "--json"])
    assert said.exit_code == (1 if verdict is False else 0)
    assert json.loads(said.stdout)[0]["verdict"] == ("fails" if verdict is False else "undecided")
    said = CliRunner().invoke(app, ["verify"])
    assert "holds" not in said.stdout
    assert ("not so: t" if verdict is False else "cannot be said: t") in said.stdout


def test_what_was_checked_before_a_stop_is_shown(monkeypatch):
    from typer.testing import CliRunner

    def stop(seed: int) -> CheckResult:
        raise KeyboardInterrupt

    one = Claim("one", "order", "exact", "So.", "a", lambda seed: CheckResult({"a": 1}, {"t": True}))
    monkeypatch.setattr(verify_claims, "CLAIMS", [one, Claim("two", "order", "exact", "So.", "a", stop)])
    said = CliRunner().invoke(app, ["verify", "--json"])
    assert said.exit_code == 130
    assert [row["id"] for row in json.loads(said.stdout)] == ["one"]
