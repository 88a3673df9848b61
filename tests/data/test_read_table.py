from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from regard.data.read_table import MAX_BYTES, list_classes, read_document, read_table
from regard.errors import UserError

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
needs_data = [pytest.mark.data, pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is absent")]


def put(path: Path, content: str | bytes) -> Path:
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("zipped", ["", ".gz"])
@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".csv", 'text,label\n"a ""b"", c\nd",1.0\nsecond,0\n'),
        (".tsv", 'label\ttext\n1\ta "b", c\\nd\n0\tsecond\n'),
        (".jsonl", '{"text": "a \\"b\\", c\\nd", "label": 1}\n\n{"label": "0", "text": "second"}\n'),
        (".txt", '1 a "b", c d\n0  second\n'),
    ],
)
def test_each_file_format_is_read(tmp_path, suffix, content, zipped):
    table = read_table(put(tmp_path / f"t{suffix}{zipped}", content))
    assert [t.replace("\\n", " ").replace("\n", " ") for t in table.texts] == ['a "b", c d', "second"]
    assert table.labels == ["1", "0"]
    assert table.num_rows == 2
    assert len(table.fingerprint) == 64


def test_parquet_labels_of_any_type_become_names(tmp_path):
    for values, wanted in (
        ([0, 1], ["0", "1"]),
        ([0.0, 1.5], ["0", "1.5"]),
        ([True, False], ["true", "false"]),
        (["a", "b"], ["a", "b"]),
    ):
        path = tmp_path / "t.parquet"
        pl.DataFrame({"text": ["x", "y"], "label": values}).write_parquet(path)
        assert read_table(path).labels == wanted


def test_folder_of_classes(tmp_path):
    for name, text in (("pos/1.txt", "good"), ("pos/2.txt", "  "), ("neg/1.txt", "bad"), ("neg/skip.jpg", "\xff")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        put(tmp_path / name, text)
    (tmp_path / "bare").mkdir()
    table = read_table(tmp_path)
    assert (table.texts, table.labels, table.num_rows) == (["bad", "good"], ["neg", "pos"], 3)
    assert any("bare" in note for note in table.notes)
    assert any("skipped 1 of 3 rows: empty text" in note for note in table.notes)
    before = table.fingerprint
    put(tmp_path / "pos/1.txt", "good!")
    assert read_table(tmp_path).fingerprint != before
    assert read_table(tmp_path, has_labels=False).labels is None


def folders(root: Path, *names: str) -> Path:
    """Files under a folder, each with its own name as its text."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        put(root / name, name)
    return root


def test_other_files_are_skipped_and_reported(tmp_path):
    odd = ["a/x.html", "a/y.html", "b/note.1", "b/.hidden.html", ".git/x.html", "top.html"]
    root = folders(tmp_path, "a/1.txt", "b/2.txt", *odd)
    assert read_table(root).notes == ["skipped 3 files that are not text: .html, .1"]
    assert read_table(root, has_labels=False).notes == ["skipped 4 files that are not text: .html, .1"]
    many = folders(tmp_path / "many", "a/1.txt", "b/2.txt", *(f"a/note.{i}" for i in range(8)))
    assert read_table(many).notes == ["skipped 8 files that are not text: .0, .1, .2, .3, .4, ..."]
    with pytest.raises(UserError, match=r"no subfolders of text files; .*; it contains 1 other files: .html"):
        read_table(folders(tmp_path / "none", "a/x.html"))


def test_file_names_are_returned(tmp_path):
    root = folders(tmp_path, "a/1.txt", "b/deep/2.txt", "b/3.txt")
    put(root / "a/0.txt", "  ")
    table = read_table(root, has_labels=False)
    assert table.file_names == table.texts == ["a/1.txt", "b/3.txt", "b/deep/2.txt"]
    assert read_table(put(tmp_path / "t.csv", "text,label\na,1\n")).file_names == []


def test_train_and_test_folders_are_not_classes(tmp_path):
    inside = [f"{part}/{name}/{i}.txt" for part in ("train", "test") for name in ("pos", "neg") for i in range(2)]
    root = folders(tmp_path / "nest", *inside)
    said = f"{root} contains train and test, each with neg and pos; pass {root}/train, and --valid {root}/test"
    with pytest.raises(UserError, match=said):
        read_table(root)
    folders(root, "README.txt", "train/urls.txt", "train/unsup/0.txt", "imdb.vocab")  # as aclImdb comes
    with pytest.raises(UserError, match=said):
        read_table(root)
    folders(root, "dev/pos/1.txt", "dev/neg/1.txt")
    with pytest.raises(UserError, match=f"train, dev and test, .* pass {root}/train, and --valid {root}/dev"):
        read_table(root)
    with pytest.raises(UserError, match=r"contains train, with neg and pos; pass .*/train$"):
        read_table(folders(tmp_path / "one", "train/neg/1.txt", "train/pos/1.txt"))
    assert len(read_table(root, has_labels=False).texts) == 13
    assert read_table(folders(tmp_path / "flat", "test/1.txt", "train/1.txt")).labels == ["test", "train"]


def test_classes_with_the_same_subfolders_are_reported(tmp_path):
    root = folders(tmp_path, *(f"{a}/{b}/1.txt" for a in ("sport", "war") for b in ("2019", "2020")))
    table = read_table(root)
    assert table.labels == ["sport", "sport", "war", "war"]
    assert table.notes == [
        "the classes are sport and war, and each contains only 2019 and 2020; for classes 2019 and 2020 pass "
        f"{root}/sport"
    ]
    folders(root, "sport/1.txt")
    assert read_table(root).notes == []


def test_one_file_is_one_document(tmp_path):
    assert read_document(put(tmp_path / "a.txt", "\ufeffone\n\ntwo\r\n")) == "one\n\ntwo"
    for name, content, said in (
        ("latin.txt", b"caf\xe9", "latin.txt is not valid UTF-8"),
        ("empty.txt", " \n", "empty.txt is empty"),
        ("large.txt", "x" * (MAX_BYTES + 1), "large.txt has more than 2,000,000 bytes"),
    ):
        with pytest.raises(UserError, match=said):
            read_document(put(tmp_path / name, content))
    with pytest.raises(UserError, match="is a folder"):
        read_document(tmp_path)
    with pytest.raises(UserError, match=r"did you mean 'a.txt'"):
        read_document(tmp_path / "b.txt")


@pytest.mark.parametrize("name", ["labels", "tags", "genres", "Topic"])
def test_label_columns_with_common_names(tmp_path, name):
    assert read_table(put(tmp_path / "t.csv", f"text,{name}\na,x|y\n"), multilabel=True).labels == ["x|y"]
    both = put(tmp_path / "b.csv", f"text,{name},label\na,x,1\n")
    assert read_table(both).labels == ["1"]
    if name != "labels":  # may stand beside what was always taken
        assert read_table(put(tmp_path / "r.csv", f"{name},text,rating\nx,a,1\n")).labels == ["1"]


def test_guessed_columns_are_reported(tmp_path):
    path = put(tmp_path / "t.csv", "id,stuff,Sentiment\nabc,a long text here,1\ndef,another long text,0\n")
    table = read_table(path)
    assert table.texts == ["a long text here", "another long text"]
    assert table.labels == ["1", "0"]
    assert any("'stuff'" in note for note in table.notes)
    assert any("'Sentiment'" in note for note in table.notes)


def test_empty_cells_are_skipped_and_counted(tmp_path):
    table = read_table(put(tmp_path / "t.csv", 'text,label\na,1\n,0\n"  ",1\nb,\nc,0\n'))
    assert (table.texts, table.labels, table.num_rows) == (["a", "c"], ["1", "0"], 5)
    assert "skipped 2 of 5 rows: empty text" in table.notes
    assert "skipped 1 of 5 rows: empty label" in table.notes


def test_columns_by_number_without_header(tmp_path):
    # the first row holds "0" and "3" as cells, and is still no header
    path = put(tmp_path / "t.tsv", "0\t3\tid/1\tthe first text\n1\t9\tid/2\tthe second\n")
    table = read_table(path, text="3", label="0")
    assert table.texts == ["the first text", "the second"]
    assert table.labels == ["0", "1"]
    named = put(tmp_path / "n.csv", "text,2019\na,1\nb,0\n")
    assert read_table(named, label="2019").texts == ["a", "b"]
    numbered = put(tmp_path / "m.csv", "0,1\na,1\nb,0\n")
    assert read_table(numbered, text="0", label="1").texts == ["a", "b"]


def test_stray_quotes_merge_no_lines(tmp_path):
    tsv = put(tmp_path / "t.tsv", 'text\tlabel\n"open\t1\nclose"\t0\n')
    assert read_table(tsv).texts == ['"open', 'close"']
    stray = put(tmp_path / "t.csv", 'text,label\n5" tall,1\n6" tall,0\n')
    assert read_table(stray).texts == ['5" tall', '6" tall']
    missing = put(tmp_path / "short.tsv", "text\tlabel\r\nline one\t1\r\nalone\r\n")
    assert read_table(missing).texts == ["line one"]


def test_txt_is_split_on_newline_only(tmp_path):
    path = put(tmp_path / "t.txt", "a one\x85two\nb three\u2028four\n")
    assert read_table(path).texts == ["one\x85two", "three\u2028four"]
    assert read_table(path, has_labels=False).texts == ["a one\x85two", "b three\u2028four"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".txt"])
def test_a_row_of_ten_megabytes(tmp_path, suffix):
    long = "word " * 2_000_000
    content = {
        ".csv": f'text,label\n"{long}",1\n5" b,0\n',
        ".tsv": f"text\tlabel\n{long}\t1\nb\t0\n",
        ".jsonl": json.dumps({"text": long, "label": 1}) + '\n{"text": "b", "label": 0}\n',
        ".txt": f"1 {long}\n0 b\n",
    }[suffix]
    table = read_table(put(tmp_path / f"t{suffix}", content))
    assert len(table.texts[0]) >= 9_999_999
    assert table.labels == ["1", "0"]


@pytest.mark.parametrize(
    ("name", "content", "keywords", "message"),
    [
        ("t.csv", "", {}, "is empty"),
        ("t.csv", " \n\n", {}, "is empty"),
        ("t.csv.gz", "", {}, "is empty"),
        ("t.csv", "text,label\n", {}, "no rows"),
        ("t.csv", "review,label\na,1\n", {"text": "reviw"}, "did you mean 'review'"),
        ("t.csv", "review,label\na,1\n", {"label": "zzz"}, "'review', 'label'"),
        ("t.csv", "text,label\n,1\n,0\n", {}, "all 2 texts are empty"),
        ("t.csv", "text,label\na,\nb,\n", {}, "all 2 labels are empty"),
        ("t.csv", "text,stuff\na,1\n", {}, "which column is the label"),
        ("t.csv", "text,stuff\na,1\n", {}, "choose one with --label NAME (label=... in Python)"),
        ("t.csv", "label\n1\n", {}, "choose one with --text NAME (text=... in Python)"),
        ("t.csv", "text,label\na,1\n", {"text": "label", "label": "label"}, "both text and label"),
        ("t.csv", "text,label\na,1\nb, c,0\n", {}, "line 3: 3 fields"),
        ("t.csv", 'text,label\nx,1\n"abc,1\ndef,0\n', {}, "line 3: a double quote"),
        ("t.csv", b"text,label\na,1\nb\xff,0\n", {}, "0xff at offset 16, line 3"),
        ("t.tsv", b"\xef\xbb\xbftext\tlabel\nb\xff\t0\n", {}, "0xff at offset 15, line 2"),
        ("t.tsv", "text\tlabel\na\t1\nb\tc\t0\n", {}, "line 3: 3 fields"),
        ("t.csv", "text,label\na,1\n".encode("utf-16"), {}, "UTF-16"),
        ("t.jsonl", '{"text": "a", "label": 1}\n{"text": \n', {}, "line 2 is not valid JSON"),
        ("t.jsonl", "[1, 2]\n", {}, "line 1: expected an object"),
        ("t.xlsx", "x", {}, "the unsupported suffix '.xlsx'; supported: .csv, .tsv"),
        ("t", "x", {}, "supported: .csv"),
        ("t.parquet", "not one", {}, "not a readable Parquet"),
        ("t.txt", "word\nother\n", {}, "all 2 texts are empty"),
    ],
)
def test_bad_files_get_one_clear_message(tmp_path, name, content, keywords, message):
    with pytest.raises(UserError) as error:
        read_table(put(tmp_path / name, content), **keywords)
    assert message in str(error.value)
    assert len(str(error.value).split("\n")) == 1


def test_corrupt_gzip(tmp_path):
    whole = gzip.compress(b"text,label\n" + b"some text,1\n" * 1000)
    for content in (whole[: len(whole) // 2], b"text,label\na,1\n", whole[:20] + b"\xff" * 20 + whole[40:]):
        path = tmp_path / "t.csv.gz"
        path.write_bytes(content)
        with pytest.raises(UserError, match="not a complete gzip file"):
            read_table(path)


def test_missing_and_unreadable(tmp_path, monkeypatch):
    put(tmp_path / "reviews.csv", "text,label\na,1\n")
    with pytest.raises(UserError, match=r"did you mean 'reviews.csv'"):
        read_table(tmp_path / "review.csv")
    with pytest.raises(UserError, match="does not exist"):
        read_table(tmp_path / "no" / "review.csv")
    with pytest.raises(UserError, match="too long"):
        read_table(tmp_path / ("x" * 5000 + ".csv"))
    with pytest.raises(UserError, match="no subfolders of text files"):
        read_table(tmp_path)

    def refuse(self: Path, mode: str) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match="Permission denied"):
        read_table(tmp_path / "reviews.csv")


def test_parquet_with_a_nested_column(tmp_path):
    pl.DataFrame({"text": [["a"], ["b"]], "label": [0, 1]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(UserError, match="expected text"):
        read_table(tmp_path / "t.parquet")


def test_list_classes():
    assert list_classes(["10", "2", "2"]) == ["2", "10"]
    assert list_classes(["b", "a"]) == ["a", "b"]
    with pytest.raises(UserError, match="same label 'x'"):
        list_classes(["x", "x"])
    with pytest.raises(UserError, match="no labels"):
        list_classes(None)


class TestReal:
    pytestmark = needs_data

    def test_imdb(self):
        table = read_table(SHARED / "imdb" / "train.tsv.gz", text="3", label="0")
        assert table.num_rows == len(table.texts) == 25_000
        assert table.labels is not None
        assert table.labels.count("1") == 12_500
        assert min(map(len, table.texts)) > 20

    @pytest.mark.parametrize(
        ("name", "rows", "classes"),
        [("mr.train", 9596, 2), ("sst2.train", 6920, 2), ("sst2.dev", 872, 2), ("trec.train", 5452, 6)],
    )
    def test_sentences(self, name, rows, classes):
        table = read_table(SHARED / "sentences" / f"{name}.txt.gz")
        assert len(table.texts) == rows
        assert table.labels is not None
        assert len(list_classes(table.labels)) == classes
