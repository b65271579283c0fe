"""Inputs that no run can use: each is refused within seconds, with a sentence that names it, before anything is loaded.

They go through all that `rlft run` does before it imports ZenML and torch.
"""

from __future__ import annotations

import json
import os
import socket
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.start import check_start
from mlops.home.folder import Home
from rlft.config.file import load_config
from rlft.errors import RlftError
from tests.e2e.conftest import TINY

SECONDS = 5  # of the processor, which count the same beside other tests; one or two at most on a machine of its own


def told(path, *overrides):
    """What a person reads who starts this run."""
    began = time.process_time()
    with pytest.raises(RlftError) as caught:
        check_start(load_config(path, list(overrides)), Home(path.parent / ".rlft"), stack=None)
    assert time.process_time() - began < SECONDS
    assert caught.value.fix or "what to do: " in str(caught.value)
    assert len(str(caught.value)) < 5000
    return str(caught.value)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A copy of the tiny config, in a folder where a run would begin."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RLFT_HOME", raising=False)
    copy = tmp_path / "tiny.yaml"
    copy.write_text(TINY.read_text())
    return copy


AT_MOST = "Input should be less than or equal to "
AT_LEAST = "Input should be greater than or equal to "
FINITE = "Input should be a finite number"
EMPTY = "it is empty; write something, or remove the setting"
WHOLE = "Input should be a valid integer"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        # Numbers: too large, too small, of another kind, and none at all.
        ("seed=1e30", f"seed: {WHOLE}, not 1e+30"),
        (f"seed={'9' * 5000}", "--set seed: the value is not readable as YAML: Exceeds the limit"),
        ("training.num_generations=1000000000", f"training.num_generations: {AT_MOST}10000, not 1000000000"),
        ("training.num_generations=-8", "training: num_generations=-8 has no group to compare with"),
        ("rollout.temperature=5e-324", f"rollout.temperature: {AT_LEAST}0.01, not 5e-324"),
        ("evaluation.temperature=-.inf", f"evaluation.temperature: {FINITE}"),
        ("reward.weights.exact=.nan", f"reward.weights.exact: {FINITE}"),
        ("tasks.first_index=100000000000000000000", f"tasks.first_index: {AT_MOST}"),
        # Models that no machine holds.
        ("policy.from_scratch.hidden_size=1e7", f"policy.from_scratch.hidden_size: {WHOLE}, not 10000000.0"),
        ("policy.from_scratch.pieces=['']", "policy.from_scratch.pieces.0: String should have at least 1 character"),
        # Texts: empty ones, too long ones, and characters that cannot be stored or seen.
        ("name=''", "name: '' is no name"),
        ("promotion.name=team/model", "promotion.name: 'team/model' holds /"),
        ("promotion.name='50%'", "promotion.name: '50%' holds %"),
        ("promotion.name=''", "promotion.name: a name has 1 to 200 characters, this one 0"),
        ("promotion.name='..'", "promotion.name: '..' leads elsewhere as a path"),
        ('promotion.name="a\\tb"', "promotion.name: 'a\\tb' holds a character that cannot be seen"),
        ("tasks.answer='  '", f"tasks.answer: {EMPTY}"),
        (f"policy={{model: {'a' * 5000}}}", "policy.model: a path has at most 4000 characters, this one 5000"),
        ('policy={model: "a\\eb"}', "policy.model: 'a\\x1bb' holds a character that cannot be seen"),
        ("reward.weights={'': 1}", f"reward.weights..[key]: {EMPTY}"),
        ('environment.name="a\\tb.py:Env"', "environment.name: 'a\\tb.py:Env' names no class"),
        # Values that are stored as something else than what they are.
        ("environment.kwargs.since=2026-01-01", "environment.kwargs.since: input was not a valid JSON value"),
        ("environment.kwargs.ids=!!set {a, b}", "environment.kwargs.ids: input was not a valid JSON value"),
        ("environment.kwargs.raw=!!binary aGVsbG8=", "environment.kwargs.raw: input was not a valid JSON value"),
        ("environment.kwargs={costs: {1: 2}}", "environment.kwargs.costs"),
        ("environment.kwargs.x=!!timestamp x", "--set environment.kwargs.x: the value is not readable as YAML: a tag"),
        ("environment.kwargs.x=" + "[" * 5000, "--set environment.kwargs.x: the value is not readable as YAML: it is"),
        ("tasks=[1, 2", "--set tasks: the value is not readable as YAML"),
        (f"{'training.' * 3}rounds=1", "training.training: unknown setting"),
    ],
)
def test_a_setting_that_no_run_can_use(tiny, override, said):
    assert said in told(tiny, override)


def bomb(levels):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file holds no mapping"),
        (b"- 1\n- 2\n", "the file holds no mapping"),
        (b"\x00" * 100, "not readable as YAML: "),
        (b"\xff\xfe\x00", "not readable as YAML: 'utf-8' codec can't decode"),
        (b"name: \xed\xa0\x80", "not readable as YAML: 'utf-8' codec can't decode"),
        (b"name: a\n---\nname: b\n", "not readable as YAML: but found another document, line 2"),
        (bomb(10).encode(), "not readable as YAML: an alias stands within what an alias stands for"),
        (b"a: &a [*a]\n", "not readable as YAML: an alias stands within what an alias stands for"),
        (b"[" * 100_000, "not readable as YAML: it is nested too deeply"),
        (b"x" * 50_000_000, "it has 50,000,000 bytes, and at most 1,000,000 are read"),
        (b"a: !!python/object/apply:os.system [id]\n", "could not determine a constructor for the tag"),
        (b"1: 2\n", "1: "),
        (b"\n".join(b"k%d: 1" % n for n in range(500)), "and 484 more"),  # 4 sections are missing
    ],
)
def test_a_file_that_is_no_config(tmp_path, content, said):
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    assert said in told(path)
    assert str(path) in told(path)


def _pipe(path):
    os.mkfifo(path)


def _socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


KINDS = [
    (_pipe, "this is a pipe, not a file"),
    (_socket, "this is a socket, not a file"),
    (lambda path: path.mkdir(), "this is a folder, not a file"),
    (lambda path: path.symlink_to("/dev/zero"), "this is a device, not a file"),
    (lambda path: path.symlink_to(path), "no path of a file: Too many levels of symbolic links"),
    (lambda path: None, "no such file"),
]
PLACES = ["tasks={{source: jsonl, path: {}}}", "tasks={{source: csv, path: {}}}", "tasks={{source: parquet, path: {}}}"]
PLACES += ["warm_start={{steps: 1, path: {}}}", "policy.chat_template={}"]


@pytest.mark.parametrize(("make", "said"), KINDS)
def test_a_path_of_what_is_no_file(tiny, tmp_path, make, said):
    path = tmp_path / "odd.py"
    make(path)
    assert said in told(path)
    for place in PLACES:
        assert said in told(tiny, place.format(path))
    assert ("there is no file" if make in (KINDS[-1][0], KINDS[-2][0]) else said) in told(
        tiny, f"environment.name={path}:Env"
    )


@pytest.mark.parametrize("path", ["a" * 300, "~nobody-of-this-name/rows.jsonl", "rows.jsonl/inner"])
def test_a_path_that_leads_nowhere(tiny, tmp_path, path):
    (tmp_path / "rows.jsonl").write_text("{}")
    for place in PLACES:
        assert path in told(tiny, place.format(path))


FIELDS = "prompt: question, answer: answer"
GOOD = {"question": "1 + 1 =", "answer": "2"}


@pytest.mark.parametrize(
    ("rows", "settings", "said"),
    [
        ([], FIELDS, "there are no rows in it"),
        ([{"question": "", "answer": "2"}], FIELDS, "rows.jsonl:1: has an empty prompt in 'question'"),
        ([{"question": "\ud800", "answer": "2"}], FIELDS, "has half a surrogate pair in field 'question'"),
        ([{"question": "1 =", "answer": float("inf")}], FIELDS, "has inf in field 'answer', which JSON cannot hold"),
        ([{"other": 1}], FIELDS, "rows.jsonl:1: has no field 'question' (it has: other)"),
        ([{"other": 1}], "max_bad_rows: 0", "rows.jsonl:1: has no prompt: none of the fields prompt, question, text"),
        ([{"question": 7, "answer": "2"}], FIELDS, "has a int as prompt in 'question'; text or a list of messages"),
        ([[1, 2]], FIELDS, "rows.jsonl:1: is a JSON list, not an object with named fields"),
        ([GOOD], "prompt: '{question', answer: answer", "tasks.prompt: '{question' is not a template"),
        ([GOOD], f"{FIELDS}, id: answr", "has no field 'answr' (it has: question, answer; did you mean answer?)"),
    ],
)
def test_rows_that_are_no_tasks(tiny, tmp_path, rows, settings, said):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert said in told(tiny, f"tasks={{source: jsonl, path: rows.jsonl, {settings}}}")


@pytest.mark.parametrize(
    ("source", "content", "said"),
    [
        ("jsonl", b"\x00" * 1000, "rows:1: is not JSON"),
        ("jsonl", b"[" * 100_000, "rows:1: is not JSON: "),
        ("jsonl", b'{"question": "\xff"}', "rows:1: is not UTF-8: byte 0xff at byte 15 of the line"),
        ("jsonl", b'{"question": ' + b"9" * 5000 + b"}", "rows:1: Exceeds the limit"),
        ("csv", b"question,question\n1,2\n", "columns need different, non-empty names"),
        ("csv", b"question,answer\n1,2,3\n", "rows:2: has 3 cells, the header has 2"),
        ("csv", b'question\n"1\n', "cannot be read: Error: unexpected end of data"),
        ("csv", b"\xff\xfe", "cannot be read: UnicodeDecodeError"),
        ("parquet", b"PAR1", "cannot be read: ArrowInvalid: "),
        ("parquet", b"question,answer\n1,2\n", "cannot be read: ArrowInvalid: "),
    ],
)
def test_bytes_that_are_no_rows(tiny, tmp_path, source, content, said):
    (tmp_path / "rows").write_bytes(content)
    assert said in told(tiny, f"tasks={{source: {source}, path: rows}}")


def test_a_parquet_file_with_other_columns(tiny, tmp_path):
    pq.write_table(pa.table({"text_of_it": ["a"]}), tmp_path / "other.parquet")
    said = told(tiny, "tasks={source: parquet, path: other.parquet, prompt: question}")
    assert "other.parquet:1: has no field 'question' (it has: text_of_it" in said
