"""Tool calls out of text, and text out of tool calls."""

import collections
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlft.harness.chat.formats import FORMATS, HERMES, LLAMA3, LLAMA3_TAGGED, MISTRAL
from rlft.messages import MAX_CALLS, MAX_DEPTH, CallError, make_call, marked, read_json
from tests.rlft.harness.chat.strategies import MARKS, call, contents
from tests.rlft.harness.chat.strategies import calls as some_calls


def names_and_arguments(calls):
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]


@pytest.mark.parametrize("name", list(FORMATS))
@settings(deadline=None)
@given(content=contents, calls=some_calls)
def test_what_is_written_is_read(name, content, calls):
    tool_format = FORMATS[name]
    parsed = tool_format.parse(tool_format.write(content, calls))
    assert parsed.content == content
    assert names_and_arguments(parsed.tool_calls) == names_and_arguments(calls)
    assert parsed.problems == ()


@pytest.mark.parametrize("name", list(FORMATS))
@settings(deadline=None)
@given(parts=st.lists(st.sampled_from([*'{}[]":,;\\ \n1a', *HERMES.marks, *LLAMA3.marks, *MISTRAL.marks, '"name"'])))
def test_nothing_raises(name, parts):
    parsed = FORMATS[name].parse("".join(parts))
    assert all(isinstance(call["function"]["arguments"], dict) for call in parsed.tool_calls)
    assert all(problem for problem in parsed.problems)


def letters(*texts):
    return collections.Counter(character for text in texts for character in text if not character.isspace())


pieces = st.lists(
    st.sampled_from(
        [
            *'{}[]":,; \n1a',
            *HERMES.marks,
            *LLAMA3.marks,
            *MISTRAL.marks,
            '{"name": "f"',
            '"arguments": {',
            "[1]",
            "[]",
            "né",
        ]
    ),
    max_size=30,
)


@pytest.mark.parametrize("name", list(FORMATS))
@settings(deadline=None, max_examples=300)
@example(["<|python_tag|>", "1", ";"])
@given(pieces)
def test_no_letter_is_lost_of_what_cannot_be_read(name, parts):
    text = "".join(parts)
    parsed = FORMATS[name].parse(text)
    for each in parsed.invalid_tool_calls:
        assert each["text"] in text
        assert each["position"] is None or 0 <= each["position"] <= len(each["text"])
    if not parsed.tool_calls:
        assert letters(text) == letters(parsed.content, *(each["text"] for each in parsed.invalid_tool_calls))


unmarked = call.filter(lambda each: not any(mark in json.dumps(each) for mark in (*MARKS, "</tool_call>")))


@pytest.mark.parametrize("name", list(FORMATS))
@settings(deadline=None)
@given(content=contents, call=unmarked, end=st.floats(0, 0.99))
@pytest.mark.slow
def test_the_text_of_a_call_that_was_cut_is_kept_as_it_was_written(name, content, call, end):
    whole = FORMATS[name].write(content, [call])
    text = whole[: len(content) + int((len(whole) - len(content)) * end)]
    parsed = FORMATS[name].parse(text)
    assert parsed.tool_calls == ()
    if not parsed.invalid_tool_calls:
        assert parsed.content == text  # cut before it was a call
        return
    (broken,) = parsed.invalid_tool_calls
    assert parsed.content == content
    assert text.removesuffix(broken["text"]) in (content, f"{content}\n")
    assert text.endswith(broken["text"])


def hermes(body):
    return f"<tool_call>\n{body}\n</tool_call>"


SEARCH = '{"name": "search", "arguments": {"query": "sky"}}'


@pytest.mark.parametrize(
    ("tool_format", "text", "content", "names"),
    [
        (HERMES, f"Look.\n{hermes(SEARCH)}", "Look.", ["search"]),
        (HERMES, f"A {hermes(SEARCH)} B {hermes(SEARCH)} C", "A \nB\nC", ["search", "search"]),
        (HERMES, f"<tool_call>{SEARCH}</tool_call>", "", ["search"]),
        (HERMES, "a stray </tool_call> is text", "a stray </tool_call> is text", []),
        (LLAMA3, '{"name": "search", "parameters": {}}', "", ["search"]),
        (LLAMA3, f"{SEARCH};{SEARCH}", "", ["search", "search"]),
        (LLAMA3, f"Look.<|python_tag|>{SEARCH}", "Look.", ["search"]),
        (LLAMA3, '{"type": "function", "function": {"name": "f", "parameters": {}}}', "", ["f"]),
        (LLAMA3, '{"name": "f", "parameters": {"a": "<|python_tag|>"}}', "", ["f"]),
        (LLAMA3, '{"parameters": {"a": 1}, "name": "f"}', "", ["f"]),
        (LLAMA3, '{"function": "f", "parameters": {"a": 1}}', "", ["f"]),
        (LLAMA3, '{"type": "function", "function": "f", "arguments": {"a": 1}}', "", ["f"]),
        (LLAMA3, '{"id": "1", "name": "f", "parameters": {}}', "", ["f"]),
        (LLAMA3, '{"parameters": 3, "fit": 1}', '{"parameters": 3, "fit": 1}', []),
        (LLAMA3, '{"name": "Ada", "age": 3}', '{"name": "Ada", "age": 3}', []),  # an answer in JSON
        (LLAMA3, '{"answer": 3}', '{"answer": 3}', []),
        (LLAMA3_TAGGED, SEARCH, SEARCH, []),
        (LLAMA3_TAGGED, f"<|python_tag|>{SEARCH}", "", ["search"]),
        (MISTRAL, f"[TOOL_CALLS] [{SEARCH}, {SEARCH}]", "", ["search", "search"]),
        (MISTRAL, f"Look.[TOOL_CALLS]{SEARCH}", "Look.", ["search"]),
        (MISTRAL, 'Look.[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]x1[ARGS]{}', "Look.", ["f", "g"]),
    ],
)
def test_forms_of_calls(tool_format, text, content, names):
    parsed = tool_format.parse(text)
    assert (parsed.content, [call["function"]["name"] for call in parsed.tool_calls]) == (content, names)
    assert parsed.problems == ()


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ('"{\\"query\\": \\"sky\\"}"', {"query": "sky"}),  # JSON in a string: models do that
        ('""', {}),
        ("null", {}),
        ('{"text": "</tool_call>"}', {"text": "</tool_call>"}),
        ('{"text": "<tool_call>"}', {"text": "<tool_call>"}),
    ],
)
def test_arguments(arguments, read):
    parsed = HERMES.parse(hermes(f'{{"name": "f", "arguments": {arguments}}}'))
    assert names_and_arguments(parsed.tool_calls) == [("f", read)]
    assert (parsed.content, parsed.problems) == ("", ())


def test_ids_that_the_model_wrote_are_kept():
    assert [call["id"] for call in MISTRAL.parse("[TOOL_CALLS]g[CALL_ID]x1[ARGS]{}").tool_calls] == ["x1"]
    assert [call["id"] for call in MISTRAL.parse('[TOOL_CALLS][{"name": "f", "id": "abc"}]').tool_calls] == ["abc"]
    assert [call["id"] for call in HERMES.parse(hermes('{"name": "f"}')).tool_calls] == [""]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('{"name": "f", "arguments": {}', "tool call 1 is not JSON: Expecting ',' delimiter"),
        ('{"name": "f"} or so', "tool call 1 is not JSON: text follows it"),
        ("", "tool call 1 is not JSON: Expecting value"),
        ('{"arguments": {}}', 'tool call 1 has no "name"'),
        ('{"name": 3}', 'tool call 1 has no "name"'),
        ("[1]", "tool call 1 is not an object but a list"),
        ('{"name": "f", "arguments": [1]}', 'tool call 1 has "arguments" that are not an object but a list'),
        (
            '{"name": "f", "arguments": "sky"}',
            "tool call 1 has arguments in a string that is not JSON: Expecting value",
        ),
        ('{"name": "f", "arguments": "{} {}"}', "arguments in a string that is not JSON alone"),
        ('{"name": "f", "arguments": {}, "parameters": {"a": 1}}', 'call 1 has "arguments" and "parameters"; give one'),
        ('{"function": {"name": "f", "parameters": {}, "arguments": {}}}', '"arguments" and "parameters"; give one'),
        ('{"name": "f", "name": "g"}', "the key 'name' stands twice"),
        ('{"name": "f", "arguments": {"a": 1, "a": 2}}', "the key 'a' stands twice"),
        ('{"name": "f", "arguments": "{\\"a\\": 1, \\"a\\": 2}"}', "the key 'a' stands twice"),
        ('{"name": "f", "arguments": {"a": NaN}}', "NaN is no finite number"),
        ('{"name": "f", "arguments": {"a": 1e999}}', "1e999 is no finite number"),
        (f'{{"name": "f", "arguments": {{"a": {"9" * 5000}}}}}', "more than 1000 digits"),
        ('{"name": "f", "arguments": {"a": "\\ud800"}}', "half a surrogate pair"),
        (f'{{"name": "f", "arguments": {{"a": {"[" * 70}1{"]" * 70}}}}}', f"deeper than {MAX_DEPTH} levels"),
        (f'{{"name": "f", "arguments": {{"a": {"[" * 200_000}', f"deeper than {MAX_DEPTH} levels"),
    ],
)
def test_problems(body, problem):
    parsed = HERMES.parse(f"Look.\n{hermes(body)}\n{hermes(SEARCH)}")
    assert len(parsed.problems) == 1
    assert problem in parsed.problems[0]
    assert [call["function"]["name"] for call in parsed.tool_calls] == ["search"]  # the other call stands
    assert parsed.content == "Look."


def test_the_place_is_marked_where_it_is_shown():
    body = '{"name": "search", "arguments": {"query": "abc}}'
    parsed = HERMES.parse(f"Look.\n{hermes(body)}\n{hermes(SEARCH)}")
    (broken,) = parsed.invalid_tool_calls
    # the string is not closed before the line ends, at the 49th character of the call, behind <tool_call> and a newline
    assert broken["text"] == hermes(body)
    assert broken["position"] == len("<tool_call>\n") + 48
    assert marked(broken["text"], broken["position"]) == f"<tool_call>\n{body}>>>\n</tool_call>"
    assert broken["error"] == (
        "tool call 1 is not JSON: Invalid control character at character 49, marked >>>: "
        '{"name": "search", "arguments": {"query": "abc}}>>>\\n</tool_call>\\n<tool_...'
    )
    (cut,) = LLAMA3.parse('{"name": "search", "parameters": {"query": "abc').invalid_tool_calls
    assert cut["error"] == (
        "tool call 1 is not JSON: Unterminated string starting at character 44, marked >>>: "
        '{"name": "search", "parameters": {"query": >>>"abc'
    )
    long = '{"name": "f", "arguments": {"a": "' + "x" * 200 + '" "b": 1}}'
    (error,) = HERMES.parse(hermes(long)).problems
    assert error.endswith("marked >>>: ..." + "x" * 58 + '" >>>"b": 1}}\\n</tool_call...')


def test_several_problems_of_one_text_keep_it_once():
    (first, second, third) = MISTRAL.parse(
        'a[TOOL_CALLS][{"nme": 1}, {"x": 2}] b [TOOL_CALLS]{"name": 3}'
    ).invalid_tool_calls
    assert (first["text"], second["text"]) == ('[TOOL_CALLS][{"nme": 1}, {"x": 2}]', "")
    assert (third["text"], third["position"]) == ('[TOOL_CALLS]{"name": 3}', None)


@pytest.mark.parametrize("tool_format", FORMATS.values(), ids=list(FORMATS))
def test_calls_beyond_the_limit_are_kept_as_text_and_are_no_content(tool_format):
    text = tool_format.write("Look.", [make_call("f", {"n": n}, "") for n in range(MAX_CALLS + 2)])
    parsed = tool_format.parse(text)
    (rest,) = parsed.invalid_tool_calls
    assert parsed.content == "Look."
    assert '"n": 64' in rest["text"]
    assert '"n": 65' in rest["text"]


@pytest.mark.parametrize("end", ["", "\n</tool_", "\n"])
def test_a_call_that_is_cut_off_is_no_call(end):
    parsed = HERMES.parse(f"Look.\n<tool_call>\n{SEARCH}{end}")
    assert parsed.tool_calls == ()
    assert parsed.problems == ("tool call 1 is not closed with </tool_call>",)
    assert parsed.content == "Look."


@pytest.mark.parametrize(
    ("tool_format", "text", "problem"),
    [
        (LLAMA3, '{"name": "search", "param', "tool call 1 is not JSON"),
        (LLAMA3, "<|python_tag|>print(1)", "tool call 1 is not JSON"),
        (LLAMA3, "<|python_tag|>[1]", "tool call 1 is not an object"),
        (LLAMA3, "I look.<|python_tag|>\n", "tool call 1 is missing"),
        (LLAMA3, f"{SEARCH} And then?", "text follows tool call 1"),
        (MISTRAL, "[TOOL_CALLS]", "tool call 1 is not JSON"),
        (MISTRAL, "[TOOL_CALLS][]", "tool call 1 is missing"),
        (MISTRAL, '[TOOL_CALLS][{"name": ', "tool call 1 is not JSON"),
        (MISTRAL, "[TOOL_CALLS]f[ARGS]{", "tool call 1 is not JSON"),
        (MISTRAL, "[TOOL_CALLS]f[ARGS][1]", 'tool call 1 has "arguments" that are not an object'),
    ],
)
def test_problems_of_the_other_forms(tool_format, text, problem):
    parsed = tool_format.parse(text)
    assert len(parsed.problems) == 1
    assert problem in parsed.problems[0]


@pytest.mark.parametrize("tool_format", FORMATS.values(), ids=list(FORMATS))
def test_only_so_many_calls_are_read(tool_format):
    call = make_call("f", {}, "")
    parsed = tool_format.parse(tool_format.write("", [call] * 1000))
    assert len(parsed.tool_calls) == MAX_CALLS
    assert parsed.problems == (f"only the first {MAX_CALLS} tool calls of a turn are read",)


def test_nesting_is_read_up_to_its_limit():
    deep = "[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH
    assert json.dumps(read_json(deep, 0)[0]) == deep
    with pytest.raises(CallError, match=f"deeper than {MAX_DEPTH} levels"):
        read_json(f"[{deep}]", 0)


def test_that_there_are_too_many_calls_is_said_once():
    call = make_call("f", {}, "")
    parsed = MISTRAL.parse(MISTRAL.write("", [call] * 1000) * 2)
    assert len(parsed.tool_calls) == MAX_CALLS
    assert parsed.problems == (f"only the first {MAX_CALLS} tool calls of a turn are read",)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>" * 90_000,
        '<tool_call>{"a":"</tool_call>' * 30_000,
        "[TOOL_CALLS]" * 80_000,
        "[TOOL_CALLS]" + "a" * 900_000,
        "[TOOL_CALLS]" + " " * 900_000,
        '{"name": "f", "parameters": {}};' * 30_000,
        "<tool_call>" + json.dumps({"name": "f", "arguments": {str(n): n for n in range(50_000)}}) + "</tool_call>",
    ],
    ids=lambda text: text[:20],
)
def test_a_million_characters_are_read_quickly(text):
    for tool_format in FORMATS.values():
        assert len(tool_format.parse(text).tool_calls) <= MAX_CALLS
