import pytest

from mlops.registry.engines import PARSERS, tool_parser
from mlops.registry.server import context_of, with_context
from tests.mlops.registry.registered import TOOL

SHOWN = {"system_prompt": "Be kind.", "tools": [TOOL], "tool_format": "hermes"}
USER = {"role": "user", "content": "Hi"}


def test_a_request_without_either_gets_both():
    body = {"model": "m", "messages": [USER], "temperature": 0}
    asked = with_context(body, SHOWN, reads_calls=True)
    assert asked == body | {"messages": [{"role": "system", "content": "Be kind."}, USER], "tools": [TOOL]}
    assert body["messages"] == [USER]  # what was sent is left alone


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_request_with_a_system_prompt_keeps_it(role):
    own = [{"role": role, "content": "Be short."}, USER]
    assert with_context({"messages": own}, SHOWN, reads_calls=True)["messages"] == own


def test_a_request_with_tools_keeps_them():
    other = [{"type": "function", "function": {"name": "other"}}]
    assert with_context({"messages": [USER], "tools": other}, SHOWN, reads_calls=True)["tools"] == other


def test_an_empty_list_of_tools_means_none():
    assert "tools" not in with_context({"messages": [USER], "tools": []}, SHOWN, reads_calls=True)


def test_calls_that_nobody_reads_stay_in_the_text():
    asked = with_context({"messages": [USER]}, SHOWN, reads_calls=False)
    assert (asked["tools"], asked["tool_choice"]) == ([TOOL], "none")
    own = with_context({"messages": [USER], "tools": [TOOL]}, SHOWN, reads_calls=False)
    assert "tool_choice" not in own  # who sends tools is told by the engine that it does not read calls


def test_a_version_without_a_context_adds_nothing():
    for context in ({}, {"system_prompt": "", "tools": []}):
        assert with_context({"messages": [USER]}, context, reads_calls=True) == {"messages": [USER]}


@pytest.mark.parametrize("messages", [None, "text", [USER, "text"], 3])
def test_a_body_that_is_wrong_is_for_the_engine_to_refuse(messages):
    asked = with_context({"messages": messages}, SHOWN, reads_calls=True)
    assert asked["messages"] in (messages, [{"role": "system", "content": "Be kind."}, USER, "text"])


@pytest.mark.parametrize(
    ("format", "parser"), [("hermes", "hermes"), ("llama3", "llama3_json"), ("mistral", "mistral"), ("declared", None)]
)
def test_the_reader_of_a_format(format, parser):
    assert tool_parser({"tools": [TOOL], "tool_format": format}) == parser
    assert tool_parser({"tools": [], "tool_format": format}) is None


def test_vllm_has_these_readers():
    from tests.needs import need_vllm

    need_vllm()
    from vllm.tool_parsers import ToolParserManager

    assert set(PARSERS.values()) <= set(ToolParserManager.list_registered())


SEVERAL = {
    "system_prompt": "",
    "tools": [],
    "tool_format": "hermes",
    "members": {"kind": SHOWN, "plain": {"tools": []}},
}


def test_calls_are_read_if_any_of_several_environments_has_tools():
    assert tool_parser(SEVERAL) == "hermes"
    assert tool_parser(SEVERAL | {"members": {"plain": {"tools": []}}}) is None


def test_a_request_names_the_environment_that_it_is_of():
    assert context_of(SEVERAL, "kind") == SHOWN
    assert context_of(SEVERAL, None) == SEVERAL
    with pytest.raises(ValueError, match="names 'other', which is not known; there are kind, plain"):
        context_of(SEVERAL, "other")
    with pytest.raises(ValueError, match="this version has the context of one environment"):
        context_of(SHOWN, "kind")
