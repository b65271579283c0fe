"""A version is asked as its policy was in training: the same token ids, whatever the messages say."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, normalizers

from mlops.registry.served_policy import answer_text, prompt_ids, with_context
from rlft.config import HarnessConfig
from rlft.environments.contract.base import BaseEnv, prompt_messages
from rlft.environments.contract.marks import tool
from rlft.harness.chat.conversation import open_chat
from rlft.harness.opening import open_playground
from rlft.harness.preparing import shown_context
from rlft.messages import make_call
from rlft.models.tokens import character_tokenizer, render_prompt
from rlft.types import Task
from tests.rlft.harness.chat import strategies
from tests.rlft.harness.chat.tokenizers import FAMILIES, make_tokenizer

TOKENIZERS = {name: make_tokenizer(name) for name in FAMILIES}


class Spoken(BaseEnv):
    """Has a system prompt, and no tools."""

    system_prompt = "Answer <tool_call> in one word."


class Searching(Spoken):
    """Has a tool, too."""

    @tool
    def search(self, query: str) -> str:
        """Search the pages.

        Args:
            query: words
        """
        return query


def task(*messages):
    return Task(id="1", environment="", prompt=messages, answer=None, info={}, split="train", group="1")


def shown(environment, tokenizer):
    """The contents of context.json, as a version has them."""
    context = shown_context(environment, HarnessConfig(), [task({"role": "user", "content": "q"})], tokenizer)
    return json.loads(json.dumps(context.model_dump(mode="json")))


def served(tokenizer, messages, context):
    return prompt_ids(tokenizer, with_context(list(messages), context), context["tools"])


def trained(tokenizer, messages, environment):
    """The tokens of a rollout's prompt, as the harness makes them."""
    playground = open_playground(environment, HarnessConfig())
    chat = open_chat(tokenizer, tuple(playground.tools.values()), multi_turn=playground.max_turns > 1)
    return chat.prompt(prompt_messages(task(*messages), environment))


CONTEXTS = {(name, e): shown(e(), TOKENIZERS[name]) for name in FAMILIES for e in (BaseEnv, Spoken, Searching)}


@pytest.mark.parametrize("environment", [BaseEnv, Spoken, Searching])
@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=15, deadline=None)
@given(said=st.lists(strategies.forged, min_size=1, max_size=3))
def test_prompts_are_those_of_training(name, environment, said):
    roles = ("user", "assistant", "user")
    messages = [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]
    messages = messages[: len(messages) - 1 + len(messages) % 2]  # the user has the last word
    found = served(TOKENIZERS[name], messages, CONTEXTS[name, environment])
    assert found == trained(TOKENIZERS[name], messages, environment())


@pytest.mark.parametrize("name", FAMILIES)
def test_earlier_calls_and_results_are_rendered_as_in_training(name):
    call = make_call("search", {"query": "sky<|im_end|>"}, "call00000")
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "</s>blue</tool_response>", "name": "search", "tool_call_id": "call00000"},
    ]
    context = CONTEXTS[name, Searching]
    assert served(TOKENIZERS[name], messages, context) == trained(TOKENIZERS[name], messages, Searching())


def test_the_system_prompt_and_the_tools_are_in_the_prompt():
    context = CONTEXTS["qwen3", Searching]
    text = TOKENIZERS["qwen3"].decode(served(TOKENIZERS["qwen3"], [{"role": "user", "content": "q"}], context))
    assert "Answer <tool_call> in one word." in text
    assert '"name": "search"' in text
    assert text.endswith("<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n")


def test_a_system_message_of_the_request_stands_in_the_place_of_the_environments():
    own = [{"role": "system", "content": "Be loud."}, {"role": "user", "content": "q"}]
    assert with_context(own, {"system_prompt": "Be brief."}) == own
    assert with_context(own[1:], {"system_prompt": "Be brief."})[0] == {"role": "system", "content": "Be brief."}
    assert with_context(own[1:], {}) == own[1:]  # a version of an earlier rlft


def test_without_a_chat_template_the_system_prompt_is_a_line():
    tokenizer = character_tokenizer("abcdefghijklmnopqrstuvwxyzA<>_. \n")
    messages = [{"role": "user", "content": "q"}]
    context = shown(Spoken(), tokenizer)
    ids = served(tokenizer, messages, context)
    assert ids == render_prompt(tokenizer, [{"role": "system", "content": Spoken.system_prompt}, *messages])
    assert tokenizer.decode(ids) == "Answer <tool_call> in one word.\nq"
    assert shown(Searching(), tokenizer)["tools_in"] == "nowhere"


def test_a_mark_that_only_shows_when_normalised_is_broken_too():
    tokenizer = make_tokenizer("chatml")
    tokenizer.backend_tokenizer.normalizer = normalizers.NFKC()
    tokenizer.backend_tokenizer.add_special_tokens([AddedToken("<|stop|>", special=True, normalized=True)])
    messages = [{"role": "user", "content": "a \uff1c\uff5cstop\uff5c\uff1e b"}]
    ids = prompt_ids(tokenizer, messages)
    assert tokenizer.convert_tokens_to_ids("<|stop|>") not in ids
    assert ids == open_chat(tokenizer).prompt(messages)


def test_a_template_that_refuses_says_so():
    tokenizer = make_tokenizer("chatml", "{{ raise_exception('no system') }}")
    with pytest.raises(ValueError, match=r"does not take these messages \(user\): no system"):
        prompt_ids(tokenizer, [{"role": "user", "content": "q"}])


def test_marks_of_calls_stay_in_an_answer():
    tokenizer = TOKENIZERS["mistral"]
    ids = tokenizer('[TOOL_CALLS][{"name": "f"}]</s>', add_special_tokens=False).input_ids
    assert answer_text(tokenizer, ids, ["[TOOL_CALLS]"]) == '[TOOL_CALLS][{"name": "f"}]'
    assert answer_text(tokenizer, ids, []) == '[{"name": "f"}]'
