import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlft.config import SourceConfig
from rlft.evaluation.gates import normalise_text, prompt_key, question_key
from rlft.messages import make_call
from rlft.tasks.rows import FieldError, content_id, make_task, to_messages
from rlft.tasks.sources import RawRow, read_rows
from rlft.types import Message, Task

FIXTURES = Path(__file__).parents[2] / "fixtures" / "tasks"


def task(row: dict[str, Any], **fields: str) -> Task:
    source = SourceConfig.model_validate({"source": "jsonl", "path": "x.jsonl", **fields})
    return make_task(RawRow("x.jsonl:1", row), source, environment="my_env.py:Env")


def fixture_tasks(name: str) -> list[Task]:
    source = SourceConfig(source="jsonl", path=str(FIXTURES / name))
    rows = [raw for raw in read_rows(source) if isinstance(raw, RawRow)]
    return [make_task(raw, source, environment="my_env.py:Env") for raw in rows]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def test_trl_rows_load_as_they_are():
    text, chat = fixture_tasks("trl.jsonl")
    assert text.prompt == (user("Name the capital of Peru."),)
    assert chat.prompt == ({"role": "system", "content": "Be brief."}, user("Name the capital of Chad."))
    assert text.answer is None
    assert text.info == {"prompt": "Name the capital of Peru.", "solution": "Lima", "difficulty": 0.2}


def test_verl_rows_load_as_they_are():
    (row,) = fixture_tasks("verl.jsonl")
    assert row.prompt == (user("2 + 2?"),)
    assert row.answer == "4"
    assert row.info == {
        "prompt": [user("2 + 2?")],
        "data_source": "openai/gsm8k",
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": "4"},
        "extra_info": {"split": "train", "index": 0},
    }


def test_verifiers_rows_load_as_they_are():
    by_question, by_prompt = fixture_tasks("verifiers.jsonl")
    assert (by_question.prompt, by_question.answer) == ((user("3 + 4?"),), 7)
    assert by_question.info == {"question": "3 + 4?", "answer": 7, "terms": 2}
    assert (by_prompt.prompt, by_prompt.answer) == ((user("5 + 4?"),), "9")
    assert by_prompt.info == {"prompt": [user("5 + 4?")], "answer": "9", "terms": 2}


def test_configured_fields_and_templates():
    row = {"q": "1+2", "meta": {"e": "1 + 2"}, "final": 3, "key": 17, "set": "a", "split": "odd"}
    plain = task(row, prompt="q", answer="final", id="key", group="set")
    assert (plain.prompt, plain.answer, plain.id, plain.group) == ((user("1+2"),), 3, "17", "a")
    assert plain.info == row
    filled = task(row, prompt="{meta[e]}\nAnswer:", answer="#### {final}")
    assert (filled.prompt, filled.answer, filled.info) == ((user("1 + 2\nAnswer:"),), "#### 3", row)


def test_a_question_is_what_the_row_asks_whatever_template_and_answer():
    row = {"q": "1 + 2?", "context": "Numbers.", "final": "3"}
    plain = task(row, prompt="q", answer="final")
    assert plain.question_key == plain.group == prompt_key([user("1 + 2?")])
    told = task(row, prompt="{q} Answer briefly.", answer="{final} ")
    assert (told.question_key, told.group) == (plain.question_key, plain.question_key)
    assert told.id != plain.id
    assert task({**row, "q": "1  + 2\uff1f"}, prompt="Q: {q}", answer="final").question_key == plain.question_key
    both = task(row, prompt="{context}\n{q}", answer="final")
    assert (
        both.question_key
        == task(row, prompt="{q} ({context!s}), {q}", answer="final").question_key
        != plain.question_key
    )
    assert task({**row, "q": ["1 + 2?"]}, prompt="{q}", answer="final").question_key == question_key(['["1 + 2?"]'])
    fixed = task(row, prompt="Say {{something}}.", answer="final")  # it names no field, so it is the question
    assert fixed.question_key == prompt_key([user("Say {something}.")])


def test_the_first_default_field_that_holds_something_counts():
    # Tables made of several forms have all columns, null where the form has none.
    made = task({"prompt": None, "question": "q", "answer": None, "ground_truth": [1]})
    assert (made.prompt, made.answer) == ((user("q"),), [1])
    assert made.info == {"prompt": None, "question": "q", "answer": None, "ground_truth": [1]}


def test_a_blank_text_is_no_answer_and_no_prompt():
    # An empty cell of a CSV file is such a text, and as an answer it would be the same as saying nothing.
    made = task({"prompt": " ", "question": "q", "answer": "", "ground_truth": "4"})
    assert (made.prompt, made.answer) == ((user("q"),), "4")
    assert task({"question": "q", "label": " "}, answer="label").answer is None
    assert task({"question": "q", "answer": []}).answer == []


def test_info_has_the_columns_of_prompt_answer_id_group_and_split():
    row = {"text": "q", "label": "4", "id": "7", "queue": "maps", "split": "gate", "when": 3}
    fields = {"prompt": "text", "answer": "label", "id": "id", "group": "queue"}
    source = SourceConfig.model_validate({"source": "jsonl", "path": "x.jsonl", **fields})
    made = make_task(RawRow("x:1", row), source, environment="e:E", split="gate")
    assert (made.text, made.answer, made.id, made.group, made.split) == ("q", "4", "7", "maps", "gate")
    assert made.info == row


def test_an_inner_info_goes_before_the_column_that_the_task_has_itself():
    # verifiers' rows may repeat the answer within `info`, with more to it; the column itself is task.answer.
    inner = {"answer": ["4", "four"], "terms": 2}
    made = task({"question": "2 + 2?", "answer": "4", "info": inner})
    assert (made.answer, made.info) == ("4", {"question": "2 + 2?", **inner})


def test_an_info_column_that_is_the_prompt_or_is_no_object_stays_a_column():
    assert task({"info": "q", "answer": 1}, prompt="info").info == {"info": "q", "answer": 1}
    assert task({"prompt": "q", "info": [1]}).info == {"prompt": "q", "info": [1]}


def test_the_text_of_a_task_is_what_the_user_asked_last():
    told = {"role": "assistant", "content": "Hello."}
    assert task({"prompt": "q"}).text == "q"
    assert task({"prompt": [{"role": "system", "content": "s"}, user("a"), told, user("b")]}).text == "b"
    assert task({"prompt": [user("a"), told]}).text == "a"
    assert task({"prompt": [told]}).text == "Hello."


def test_a_split_column_that_decides_is_in_info_too():
    raw = RawRow("x:1", {"prompt": "q", "split": "gate"})
    made = make_task(raw, SourceConfig(source="jsonl", path="x"), environment="e:E", split="gate")
    assert (made.split, made.info) == ("gate", {"prompt": "q", "split": "gate"})


def test_empty_keys_of_messages_are_dropped():
    # Arrow gives every message the keys of all messages.
    call = make_call("search", {}, "1")
    messages = to_messages(
        [
            {"role": "user", "content": "hi", "tool_calls": None},
            {"role": "assistant", "content": None, "tool_calls": [call]},
        ],
        "prompt",
    )
    assert messages == (user("hi"), {"role": "assistant", "content": "", "tool_calls": [call]})


def test_earlier_calls_in_a_prompt_may_be_as_openai_writes_them():
    function = {"name": "search", "arguments": '{"query": "sky"}'}
    calls = [{"id": "c1", "type": "function", "function": function}, make_call("search", {"query": "sky"}, "c1")]
    told = [{"role": "tool", "content": "blue"}, user("And at night?")]
    made = [
        make_task(
            RawRow("x:1", {"prompt": [user("hi"), {"role": "assistant", "tool_calls": [call]}, *told]}),
            SourceConfig(source="jsonl", path="x"),
            environment="e:E",
        )
        for call in calls
    ]
    assert made[0].prompt == made[1].prompt
    assert made[0].id == made[1].id  # one conversation, however it was written
    assert made[0].prompt[1] == {"role": "assistant", "content": "", "tool_calls": calls[1:]}
    assert made[0].prompt[2] == {"role": "tool", "content": "blue", "tool_call_id": "c1", "name": "search"}


@pytest.mark.parametrize(
    ("row", "fields", "reason"),
    [
        ({"a": 1, "b": 2}, {}, r"has no prompt: none of the fields prompt, question, text \(it has: a, b\)"),
        ({"a": 1}, {"prompt": "q"}, r"has no field 'q' \(it has: a\)"),
        ({"prompt": "p"}, {"answer": "gold"}, r"has no field 'gold' \(it has: prompt\)"),
        ({"prompt": "p"}, {"group": "g"}, "has no field 'g'"),
        ({"prompt": "p"}, {"prompt": "{q}:"}, r"has no field \{q\} for the template"),
        ({"prompt": " \u2028"}, {}, "has an empty prompt in 'prompt'"),
        ({"prompt": None}, {}, "has an empty prompt in 'prompt'"),
        ({"prompt": []}, {}, "has an empty prompt in 'prompt'"),
        ({"prompt": [{"role": "system", "content": "s"}, user("")]}, {}, "has an empty prompt in 'prompt'"),
        ({"prompt": 5}, {}, "has a int as prompt in 'prompt'; text or a list of messages is needed"),
        ({"prompt": {"role": "user"}}, {}, "has a dict as prompt"),
        ({"prompt": ["hi"]}, {}, "has a prompt in 'prompt' that cannot be read: message 1 has no role; write"),
        ({"prompt": [user("hi"), {"content": "x"}]}, {}, "message 2 has no role"),
        ({"prompt": [{"role": "user"}]}, {}, "message 1 has no text as content"),
        ({"prompt": [{"role": "user", "content": ["x"]}]}, {}, "message 1 has a part of type str in its content"),
        (
            {"prompt": [user("x"), {"role": "function", "content": "1"}]},
            {},
            "message 2 has the old function_call; write",
        ),
        ({"prompt": "p", "key": ""}, {"id": "key"}, "has no usable id in field 'key': ''"),
        ({"prompt": "p", "key": [1]}, {"id": "key"}, r"has no usable id in field 'key': \[1\]"),
        ({"prompt": "p", "set": None}, {"group": "set"}, "has no usable group in field 'set': None"),
        ({"prompt": "p", "x": 1, "info": {"x": 2}}, {}, "has x both as a column and inside `info`"),
        ({"prompt": "p", "raw": b"1"}, {}, "has a bytes in field 'raw'"),
    ],
)
def test_reasons_of_bad_rows(row: dict[str, Any], fields: dict[str, str], reason: str):
    with pytest.raises(FieldError, match=reason):
        task(row, **fields)


def test_content_id_by_value():
    # printf '["e:E",[{"content":"é","role":"user"}],4]' | sha256sum | cut -c1-16
    assert content_id([user("é")], 4, "e:E") == "4c606692e442cfcf"


def test_content_ids_depend_on_prompt_answer_and_environment_alone():
    first = content_id([user("q")], "4", "e:E")
    others = [content_id([user("Q")], "4", "e:E"), content_id([user("q")], 4, "e:E"), content_id([user("q")], "4", "E")]
    assert first not in others
    assert task({"prompt": "q", "answer": "4", "note": "x"}).id == task({"answer": "4", "prompt": "q"}).id


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(min_size=1).filter(str.strip), JSON, st.randoms())
def test_ids_survive_json_and_the_order_of_keys(prompt: str, answer: Any, random: Any):
    row = {"prompt": prompt, "answer": answer, "extra": 1}
    items = list(row.items())
    random.shuffle(items)
    again = json.loads(json.dumps(dict(items)))
    assert task(again).id == task(row).id
    assert len(task(row).id) == 16


def test_prompts_are_compared_up_to_form_case_and_white_space():
    # U+FB01 is the ligature fi, U+00A0 a no-break space, U+2028 a line separator
    assert normalise_text(" The\u00a0\ufb01rst\u2028 Ⅳ ") == "the first iv"
    assert prompt_key([user("Name  it")]) == prompt_key([user("name it\n")])
    assert prompt_key([user("name it")]) != prompt_key([{"role": "system", "content": "name it"}])


@pytest.mark.parametrize("row", [{"prompt": "q", "answer": float("nan")}, {"prompt": "q", "answer": np.float32("nan")}])
def test_an_answer_that_is_nan_makes_a_bad_row_and_another_column_none(row):
    with pytest.raises(FieldError, match="has NaN in 'answer'"):
        task(row)
    assert task({"prompt": "q", "answer": "a", "score": row["answer"]}).info["score"] is None
