import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlft.config import SourceConfig, TasksConfig
from rlft.errors import TaskError
from rlft.tasks.sources import BadRow, BadRows, RawRow, describe_source, describe_tasks, read_rows

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tasks"


def source(kind: str, path: Path, **more: str) -> SourceConfig:
    return SourceConfig.model_validate({"source": kind, "path": str(path), **more})


@pytest.fixture
def hub_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def test_jsonl_lines_end_at_newlines_only():
    # A byte order mark, U+2028 and U+0085 inside the texts, and a blank line 2: two rows, at lines 1 and 3.
    assert list(read_rows(source("jsonl", FIXTURES / "separators.jsonl"))) == [
        RawRow("separators.jsonl:1", {"question": "one\u2028line “quoted”", "answer": "a\u0085b"}),
        RawRow("separators.jsonl:3", {"question": "two", "answer": "2"}),
    ]


def test_malformed_jsonl_lines_are_bad_rows_with_place_and_reason():
    good, cut, array, latin = read_rows(source("jsonl", FIXTURES / "malformed.jsonl"))
    assert good == RawRow("malformed.jsonl:1", {"question": "fine", "answer": "1"})
    assert isinstance(cut, BadRow)
    assert cut.place == "malformed.jsonl:2"
    assert cut.reason.startswith("is not JSON: ")
    assert array == BadRow("malformed.jsonl:3", "is a JSON list, not an object with named fields")
    # {"question": " is 14 bytes long, so the stray byte is the 15th
    assert latin == BadRow("malformed.jsonl:4", "is not UTF-8: byte 0xe9 at byte 15 of the line")


def test_a_key_that_stands_twice_makes_a_bad_row(tmp_path: Path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"question": "q", "info": {"answer": 1, "answer": 2}}\n{"question": "q"}\n')
    twice, good = read_rows(source("jsonl", path))
    assert twice == BadRow("x.jsonl:1", "the key 'answer' stands twice")
    assert good == RawRow("x.jsonl:2", {"question": "q"})


def test_no_more_rows_are_read_than_are_wanted():
    rows = list(read_rows(source("jsonl", FIXTURES / "malformed.jsonl"), count=2))
    assert [row.place for row in rows] == ["malformed.jsonl:1", "malformed.jsonl:2"]


def test_csv_cells_stay_text_and_short_lines_are_bad():
    # Line 3 holds a quoted line break, so that row ends at line 4 and the short one is line 5.
    assert list(read_rows(source("csv", FIXTURES / "sums.csv"))) == [
        RawRow("sums.csv:2", {"question": "1 + 1, as a word?", "answer": "007"}),
        RawRow("sums.csv:4", {"question": "two\nlines", "answer": ""}),
        BadRow("sums.csv:5", "has 1 cells, the header has 2"),
    ]


def test_csv_needs_named_columns(tmp_path: Path):
    path = tmp_path / "twice.csv"
    path.write_text("a,a\n1,2\n")
    with pytest.raises(TaskError, match="columns need different, non-empty names"):
        list(read_rows(source("csv", path)))


def test_parquet_keeps_types(tmp_path: Path):
    row = {"question": "x", "answer": 1.5, "day": datetime.date(2026, 1, 2), "nested": {"a": [1, 2]}, "none": None}
    pq.write_table(pa.Table.from_pylist([row, row]), tmp_path / "rows.parquet")
    assert list(read_rows(source("parquet", tmp_path / "rows.parquet"))) == [
        RawRow("rows.parquet:1", row),
        RawRow("rows.parquet:2", row),
    ]


@pytest.mark.usefixtures("hub_cache")
def test_huggingface_folder_and_saved_data_set(tmp_path: Path):
    import datasets

    rows = [{"question": "one\u2028line", "answer": "1"}, {"question": "two", "answer": "2"}]
    folder = tmp_path / "data"
    folder.mkdir()
    datasets.Dataset.from_list(rows).to_json(folder / "train.jsonl", force_ascii=False)
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "saved")
    for path in (folder, tmp_path / "saved"):
        read = list(read_rows(source("huggingface", path)))
        assert read == [RawRow(f"{path.name}[train]:{number}", row) for number, row in enumerate(rows, start=1)]
    with pytest.raises(TaskError, match=r'Unknown split "dev"(.|\n)*tasks.hub_split'):
        list(read_rows(source("huggingface", folder, hub_split="dev")))


def test_hub_out_of_reach_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    import datasets

    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionError("Couldn't reach 'openai/gsm8k' on the Hub")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(TaskError) as raised:
        list(read_rows(source("huggingface", Path("openai/gsm8k"), subset="main")))
    assert raised.value.where == "huggingface openai/gsm8k main train"
    assert "Couldn't reach" in raised.value.what
    assert "a folder that it was downloaded to" in raised.value.fix


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "huggingface"])
def test_missing_sources(kind: str, tmp_path: Path):
    with pytest.raises(TaskError) as raised:
        list(read_rows(source(kind, tmp_path / "nowhere.jsonl")))
    assert "nowhere.jsonl" in raised.value.where
    assert "tasks.path" in raised.value.fix


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_folders_are_not_files(kind: str, tmp_path: Path):
    with pytest.raises(TaskError, match="this is a folder"):
        list(read_rows(source(kind, tmp_path)))


@pytest.mark.parametrize(("kind", "content"), [("jsonl", b"\n \n"), ("csv", b"question,answer\n"), ("jsonl", b"")])
def test_empty_sources(kind: str, content: bytes, tmp_path: Path):
    path = tmp_path / "empty"
    path.write_bytes(content)
    with pytest.raises(TaskError, match="there are no rows in it"):
        list(read_rows(source(kind, path)))


@pytest.mark.parametrize(("kind", "content"), [("parquet", b"not parquet"), ("csv", b"a,b\n\xe9,1\n")])
def test_unreadable_files(kind: str, content: bytes, tmp_path: Path):
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(TaskError, match="cannot be read: "):
        list(read_rows(source(kind, path)))


def test_descriptions():
    hub = SourceConfig(source="huggingface", path="openai/gsm8k", subset="main", revision="abc")
    assert describe_source(hub) == "huggingface openai/gsm8k main train @abc"
    assert describe_source(SourceConfig(source="reasoning_gym", generator="chain_sum")) == "reasoning_gym chain_sum"


def test_each_reason_of_bad_rows_is_listed_once_and_up_to_twenty_are():
    bad = BadRows(26, [BadRow(f"x:{number}", f"is {min(number, 25)}") for number in range(1, 27)])
    bad.check("x")  # 26 of 26 allowed
    bad.rows.insert(0, BadRow("x:0", "is 1"))
    with pytest.raises(TaskError) as raised:
        bad.check("x")
    lines = raised.value.what.splitlines()
    # rows 0 and 1 have one reason, 25 and 26 too: 27 rows of 25 reasons, of which 20 are shown
    assert lines[:2] == ["27 bad rows, 26 allowed:", "  x:0: is 1 (and 1 more rows)"]
    assert lines[2:21] == [f"  x:{number}: is {number}" for number in range(2, 21)]
    assert lines[21:] == ["  and 5 more kinds"]


def test_tasks_from_use_are_named_beside_the_source():
    given = {"source": "jsonl", "path": "a.jsonl"}
    assert describe_tasks(TasksConfig.model_validate(given)) == "jsonl a.jsonl"
    use = {"experiment": "asked"}
    assert describe_tasks(TasksConfig.model_validate(given | {"use": use})) == "jsonl a.jsonl and the traces of asked"
