"""Sources whose first rows show that ingestion would refuse them; models and templates that are not there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError

from rlft.config import PolicyConfig, SourceConfig
from rlft.errors import PolicyError, TaskError
from rlft.estimation.readiness import ROWS, check_chat_template, check_demonstrations, check_origin, check_rows

ROW = {"question": "1 + 1 =", "answer": "2", "meta": {"topic": "sums"}}


def write_rows(path: Path, *rows: object) -> str:
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return str(path)


def check(path: str, allowed: int = 0, kind: str = "jsonl", **fields: str) -> None:
    source = SourceConfig(source=kind, path=path, **fields)  # type: ignore[arg-type]
    check_rows(source, "tasks", allowed=allowed, seed=0)


def refusal(path: str, **options) -> TaskError:
    with pytest.raises(TaskError) as caught:
        check(path, **options)
    return caught.value


@pytest.mark.parametrize("setting", ["prompt", "answer", "id", "group"])
def test_a_field_that_no_row_has_is_named_with_the_nearest(tmp_path, setting):
    path = write_rows(tmp_path / "rows.jsonl", ROW, ROW)
    fields = {"prompt": "Q: {question} ({meta[topic]})", "answer": "answer", "id": "question", "group": "meta.topic"}
    check(path, **fields)
    error = refusal(path, **fields | {setting: "anser"})
    assert error.where == f"jsonl {path}"
    assert "rows.jsonl:1: has no field 'anser' (it has: question, answer, meta; did you mean answer?)" in error.what


def test_columns_of_a_table_are_looked_at_too(tmp_path):
    (tmp_path / "rows.csv").write_text("question,answer\n1 + 1 =,2\n")
    assert "did you mean answer?" in refusal(str(tmp_path / "rows.csv"), kind="csv", answer="Answer").what
    pq.write_table(pa.table({"question": ["a"] * 3000, "answer": ["b"] * 3000}), tmp_path / "rows.parquet")
    assert "did you mean answer?" in refusal(str(tmp_path / "rows.parquet"), kind="parquet", answer="answr").what


def test_rows_that_may_be_unusable_are_passed_over(tmp_path):
    # Ingestion allows two: a file whose first two rows lack the field may be right from the third on.
    path = write_rows(tmp_path / "rows.jsonl", {"q": 1}, "{broken\n", ROW)
    check(path, allowed=2)
    assert refusal(path, allowed=1).what.startswith("2 bad rows, 1 allowed:\n  rows.jsonl:1: has no prompt")
    # And where there are no more rows than may be bad, nothing is known.
    check(write_rows(tmp_path / "few.jsonl", {"q": 1}), allowed=1, answer="anser")


def test_a_large_file_is_not_read_to_its_end(tmp_path):
    # The row after those that are looked at is broken: only ingestion sees it.
    check(write_rows(tmp_path / "rows.jsonl", *[ROW] * ROWS, "{broken\n"))
    assert "rows.jsonl:20" in refusal(write_rows(tmp_path / "rows.jsonl", *[ROW] * (ROWS - 1), "{broken\n")).what


def test_a_file_or_folder_that_is_not_there_is_named(tmp_path):
    assert refusal(str(tmp_path / "absent.jsonl")).what.startswith("no such file")


def test_a_template_that_cannot_be_read_is_refused_before_the_file(tmp_path):
    assert refusal(str(tmp_path / "absent.jsonl"), prompt="{question").where == "tasks.prompt"


def test_a_data_set_on_disk_is_read_as_far_as_its_first_rows(tmp_path):
    write_rows(tmp_path / "rows.jsonl", ROW, ROW)
    source = SourceConfig(source="huggingface", path=str(tmp_path), answer="anser")
    with pytest.raises(TaskError, match=re.escape("did you mean answer?")):
        check_rows(source, "tasks", allowed=0, seed=0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"generator": "chain_sun"}, "'chain_sun' not registered"),
        ({"generator_kwargs": {"min_term": 2}}, "unexpected keyword argument 'min_term'"),
        ({"prompt": "{metadata[expresion]} ="}, "has no field {metadata[expresion]} for the template"),
    ],
)
def test_a_generator_is_tried(changes, said):
    source = {"source": "reasoning_gym", "generator": "chain_sum", "prompt": "{metadata[expression]} ="}
    check_rows(SourceConfig(**source), "tasks", allowed=0, seed=3)
    with pytest.raises(TaskError) as caught:
        check_rows(SourceConfig(**source | changes), "tasks", allowed=0, seed=3)
    assert said in str(caught.value)


def test_demonstrations_are_looked_at_by_their_first_rows(tmp_path):
    good = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    check_demonstrations(Path(write_rows(tmp_path / "shown.jsonl", *[good] * ROWS, {"text": "a"})))
    with pytest.raises(TaskError, match=r"shown\.jsonl:2"):
        check_demonstrations(Path(write_rows(tmp_path / "shown.jsonl", good, {"text": "a"})))
    with pytest.raises(TaskError, match="no such file"):
        check_demonstrations(tmp_path / "absent.jsonl")


@pytest.fixture
def model(tmp_path):
    """A folder with what a model's folder has."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    return folder


def refused(check, *arguments) -> str:
    with pytest.raises(PolicyError) as caught:
        check(*arguments)
    return f"{caught.value.where}: {caught.value.what}"


def test_a_folder_without_a_model_is_named(model, tmp_path):
    check_origin(PolicyConfig(model=str(model)))
    (model / "config.json").unlink()
    assert "there is no config.json in the folder" in refused(check_origin, PolicyConfig(model=str(model)))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no config.json and no *.safetensors" in refused(check_origin, PolicyConfig(model=str(empty)))


@pytest.mark.parametrize("name", ["./absent", "/absent/model", "~/absent", "a/b/c"])
def test_what_can_only_be_a_folder_is_not_looked_for_on_the_hub(name):
    folder = str(Path(name).expanduser()) if name[0] == "~" else name
    assert f"there is no folder {folder!r}" in refused(check_origin, PolicyConfig(model=name))


@pytest.mark.parametrize("refusal", [RepositoryNotFoundError, LocalEntryNotFoundError, HFValidationError])
def test_a_model_that_the_hub_does_not_give_is_refused(monkeypatch, refusal):
    asked = []

    def download(name, file, *, revision, etag_timeout):
        asked.append((name, file, revision, etag_timeout))
        if name == "owner/absent":
            answer = {"response": httpx.Response(404, request=httpx.Request("HEAD", "https://hub"))}
            raise refusal("no such", **(answer if refusal is RepositoryNotFoundError else {}))

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    check_origin(PolicyConfig(model="owner/name"))
    said = refused(check_origin, PolicyConfig(model="owner/absent", revision="v1"))
    assert said.startswith("policy.model: the model 'owner/absent' at v1 is not to be had of the hub: ")
    # one look, where transformers tries for 32 s for each of its files
    assert asked == [("owner/name", "config.json", None, 5.0), ("owner/absent", "config.json", "v1", 5.0)]


def test_a_template_is_a_shipped_one_or_a_file(tmp_path):
    (tmp_path / "own.jinja").write_text("{{ messages }}")
    for name in (None, "qwen3", str(tmp_path / "own.jinja")):
        check_chat_template(PolicyConfig(model="m", chat_template=name))
    said = refused(check_chat_template, PolicyConfig(model="m", chat_template="qwen4"))
    assert said.startswith("policy.chat_template: 'qwen4' is no template")
