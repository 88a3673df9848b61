"""Labels as arrays: single or multi-label, with and without class weights."""

from __future__ import annotations

import numpy as np
import pytest

from regard.data.labels import (
    compute_class_weights,
    describe_imbalance,
    encode_labels,
    encode_multilabel,
    find_separator,
    rarest_labels,
    split_labels,
)
from regard.data.read_table import read_table
from regard.errors import UserError

NAMES = ["a", "b", "c"]


def test_separator_is_found():
    assert find_separator(["a", "b;c", "a,b"]) == ";"
    assert find_separator(["a|b;c"]) == "|"
    assert find_separator(["a", "b, c"]) == ","
    assert find_separator(['["a, b", "c"]', "d"]) == "|"


def test_labels_are_split():
    assert split_labels(["a|b", " b | a |b ", "", "c"], "|") == [("a", "b"), ("b", "a"), (), ("c",)]
    assert split_labels(['["a|x", "b"]', "[]", "[a|b]"], "|") == [("a|x", "b"), (), ("[a", "b]")]
    with pytest.raises(UserError, match="separator"):
        split_labels(["a"], "")


def test_encode_labels_and_multilabel():
    assert encode_labels(["c", "a"], NAMES).tolist() == [2, 0]
    assert encode_multilabel([("c", "a"), (), ("b",)], NAMES).tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    for call in (lambda: encode_labels(["x"], NAMES, "f.csv"), lambda: encode_multilabel([("a", "x")], NAMES, "f.csv")):
        with pytest.raises(UserError, match=r"f\.csv has labels that are not in the training data: 'x'"):
            call()


def test_the_rarest_label_decides_the_split():
    assert rarest_labels([("a", "b"), ("a",), ("a", "b"), ()]) == ["b", "a", "b", ""]


def test_balanced_class_weights():
    truth = np.array([0] * 90 + [1] * 9 + [2])
    weights = compute_class_weights("balanced", truth, NAMES)
    assert weights is not None
    assert np.bincount(truth, weights[truth]) == pytest.approx(100 / 3)
    members = np.array([[1, 0], [1, 0], [1, 1], [0, 0]], np.float32)
    assert compute_class_weights("balanced", members, ["x", "y"]) == pytest.approx([1 / 3, 3])
    assert compute_class_weights(None, truth, NAMES) is None


def test_explicit_class_weights():
    truth = np.array([0, 1, 2])
    for said in ("b=4", ' {"b": 4}', "b = 4, c=1"):
        assert compute_class_weights(said, truth, NAMES) == pytest.approx([1, 4, 1])
    assert compute_class_weights("x=y=2", truth, ["x=y", "z"]) == pytest.approx([2, 1])
    for said, problem in (
        ("four", "must be balanced"),
        ("a=-1", "must be balanced"),
        ("a=0,b=0,c=0", "must be balanced"),
        ("{a}", "must be balanced"),
        ("a=nan", "must be balanced"),
        ("bb=1", "did you mean 'b'"),
    ):
        with pytest.raises(UserError, match=problem):
            compute_class_weights(said, truth, NAMES)


def test_imbalance_is_described():
    said = describe_imbalance(np.array([0] * 95 + [1] * 5), ["yes", "no"])
    assert said is not None
    assert "'yes' has 95 of 100" in said
    assert "95.0%" in said
    assert describe_imbalance(np.array([0] * 60 + [1] * 40), ["yes", "no"]) is None


def test_cells_with_several_labels_are_read(tmp_path):
    import polars as pl

    (tmp_path / "a.csv").write_text('text,label\none,a|b\ntwo,\n,"a"\n')
    (tmp_path / "a.jsonl").write_text('{"text": "one", "label": ["a", "b"]}\n{"text": "two", "label": []}\n')
    pl.DataFrame({"text": ["one", "two"], "label": [["a", "b"], []]}).write_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        table = read_table(tmp_path / name, multilabel=True)
        assert table.texts == ["one", "two"]
        assert split_labels(table.labels or [], "|") == [("a", "b"), ()]
    assert read_table(tmp_path / "a.csv").texts == ["one"]
    with pytest.raises(UserError, match="expected text"):
        read_table(tmp_path / "a.parquet")
    (tmp_path / "none.csv").write_text("text,label\none,\ntwo,\n")
    with pytest.raises(UserError, match="labels are empty"):
        read_table(tmp_path / "none.csv", multilabel=True)
