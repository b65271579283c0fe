"""Which template a conversation is rendered with."""

import json

import pytest

from rlft.environments.contract.marks import read_tools
from rlft.errors import PolicyError
from rlft.harness.chat.conversation import open_chat
from rlft.harness.chat.templates import (
    QUESTION,
    SYSTEM,
    apply_chat_template_setting,
    check_prefix,
    family,
    render,
    shipped_template,
    training_template,
    use_training_template,
)
from rlft.messages import make_call
from tests.rlft.harness.chat.tokenizers import (
    CHATML_FORGETFUL,
    FAMILIES,
    MISTRAL_STOCK,
    SEARCH,
    UNKNOWN_FORGETFUL,
    make_tokenizer,
    stock,
)

STOCK = {
    "qwen3": stock("qwen3"),
    "llama3": stock("llama3_2"),
    "mistral": MISTRAL_STOCK,
    "gemma": stock("gemma3"),
    "chatml": CHATML_FORGETFUL,
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("tools", [True, False])
def test_training_templates_keep_history(name, tools):
    tokenizer = make_tokenizer(name)
    assert check_prefix(tokenizer, shipped_template(name), tools=tools) is None


@pytest.mark.parametrize("name", FAMILIES)
def test_stock_templates_are_recognised(name):
    assert family(make_tokenizer(name, STOCK[name])) == name


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("qwen3", "rewrites earlier turns: '<think>"),  # the thinking before the last question
        ("mistral", "rewrites earlier turns: 'AVAILABLE_TOOLS]"),  # the tools go to the last question
        ("llama3", "single tool-calls"),
        ("gemma", "roles must alternate"),
        ("chatml", "leaves out what was said|rewrites"),
    ],
)
def test_stock_templates_do_not_serve(name, fault):
    found = check_prefix(make_tokenizer(name), STOCK[name])
    assert found is not None
    assert any(part in found for part in fault.split("|"))


STOCK_DESCRIBES_TOOLS = [name for name in FAMILIES if name not in ("gemma", "chatml")]


WORDS, LIMIT = "Words of the page.", "How many; 10 if left out."
PLAIN = read_tools(
    [
        {"name": "search", "description": "Look.", "parameters": {"query": WORDS, "limit": LIMIT}},
        {"name": "tick", "description": "Wait."},
    ]
)


@pytest.mark.parametrize("name", FAMILIES)
def test_plain_parameters_are_shown(name):
    for template in (shipped_template(name), *([STOCK[name]] if name in STOCK_DESCRIBES_TOOLS else [])):
        text = render(make_tokenizer(name), template, QUESTION, PLAIN, add_generation_prompt=True)
        assert all(said in text for said in ('"limit"', WORDS, LIMIT, '"tick"'))


@pytest.mark.parametrize(
    ("name", "tools"),
    [(name, ()) for name in FAMILIES]
    + [(name, tools) for name in STOCK_DESCRIBES_TOOLS for tools in ((SEARCH,), (SEARCH, SEARCH), PLAIN)],
)
@pytest.mark.parametrize("system", [True, False])
def test_first_prompts_are_those_of_the_stock_template(name, system, tools):
    messages = [SYSTEM, *QUESTION] if system else QUESTION
    tokenizer = make_tokenizer(name, STOCK[name])
    expected = render(tokenizer, STOCK[name], messages, tools, add_generation_prompt=True, date_string="26 Jul 2024")
    assert render(tokenizer, shipped_template(name), messages, tools, add_generation_prompt=True) == expected
    assert training_template(tokenizer) == shipped_template(name)


@pytest.mark.parametrize("template", [MISTRAL_STOCK, "{{ messages | tojson }}"])
def test_calls_are_rendered_the_same_after_storage(template):
    # A template may print a call as it is, and tables sort the keys of what they store.
    call = make_call("search", {"query": "sky"}, "call00000")
    asked = {"role": "assistant", "content": "", "tool_calls": [call]}
    stored = json.loads(json.dumps(asked, sort_keys=True))
    assert list(stored["tool_calls"][0]) != list(call)
    texts = [
        render(make_tokenizer("mistral"), template, [*QUESTION, {**asked, "tool_calls": each["tool_calls"]}])
        for each in (asked, stored)
    ]
    assert texts[0] == texts[1]


def test_qwen3_without_thinking_opens_as_the_stock_template_does():
    tokenizer = make_tokenizer("qwen3", STOCK["qwen3"])
    texts = [
        render(tokenizer, template, QUESTION, add_generation_prompt=True, enable_thinking=False)
        for template in (STOCK["qwen3"], shipped_template("qwen3"))
    ]
    assert texts[0] == texts[1]
    assert texts[0].endswith("<think>\n\n</think>\n\n")


@pytest.mark.parametrize("tools", [(), (SEARCH,)])
def test_variables_are_kept_in_the_template_whoever_renders_with_it(tools):
    tokenizer = make_tokenizer("qwen3", STOCK["qwen3"])
    expected = render(tokenizer, STOCK["qwen3"], QUESTION, tools, add_generation_prompt=True, enable_thinking=False)
    for _ in range(2):
        apply_chat_template_setting(tokenizer, None, {"enable_thinking": False})
    assert render(tokenizer, tokenizer.chat_template, QUESTION, tools, add_generation_prompt=True) == expected
    assert use_training_template(tokenizer, tools=bool(tools)) is True  # several turns: each has the empty thought
    assert tokenizer.chat_template.count("set enable_thinking = False") == 1
    chat = open_chat(tokenizer, tools)
    assert tokenizer.decode(chat.prompt(QUESTION)) == expected
    written = chat.write({"role": "assistant", "content": "Blue."})
    more = chat.decode(chat.continuation(QUESTION, written[-1]))
    assert chat.decode(written) == "Blue.<|im_end|>"
    assert (
        more
        == f"\n<|im_start|>user\n{QUESTION[0]['content']}<|im_end|>\n" + expected[expected.rindex("<|im_start|>") :]
    )


@pytest.mark.parametrize("template", [STOCK["qwen3"], None])
def test_a_variable_that_the_template_does_not_know_is_refused(template):
    tokenizer = make_tokenizer("qwen3")
    tokenizer.chat_template = template
    with pytest.raises(PolicyError) as caught:
        apply_chat_template_setting(tokenizer, None, {"enable_thinkin": False})
    assert caught.value.where == "policy.chat_template_kwargs"


def test_reasoning_that_a_server_split_off_is_rendered_as_it_was_sampled():
    tokenizer = make_tokenizer("qwen3")
    split = [*QUESTION, {"role": "assistant", "reasoning_content": "Hm.", "content": "Blue."}]
    whole = [*QUESTION, {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nBlue."}]
    assert render(tokenizer, tokenizer.chat_template, split) == render(tokenizer, tokenizer.chat_template, whole)


def test_sentencepiece_mistral_has_a_space_after_each_mark():
    old = MISTRAL_STOCK.replace("[INST]'", "[INST] '").replace("[AVAILABLE_TOOLS][", "[AVAILABLE_TOOLS] [")
    tokenizer = make_tokenizer("mistral", old)
    template = training_template(tokenizer)
    assert template is not None
    assert render(tokenizer, template, QUESTION) == "<s>[INST] Which colour is the sky?[/INST]"


@pytest.mark.parametrize("name", FAMILIES)
def test_a_template_that_keeps_history_is_kept(name):
    tokenizer = make_tokenizer(name)
    assert use_training_template(tokenizer, tools=True) is False
    qwen2 = make_tokenizer("qwen3", stock("qwen2_5"))
    assert use_training_template(qwen2, tools=True) is False
    assert qwen2.chat_template == stock("qwen2_5")


@pytest.mark.parametrize("name", FAMILIES)
def test_opening_a_chat_leaves_the_tokenizer_alone_and_use_sets_it(name):
    tokenizer = make_tokenizer(name, STOCK[name])
    chat = open_chat(tokenizer, [SEARCH])
    assert tokenizer.chat_template == STOCK[name]
    prompt = chat.prompt(QUESTION)
    assert use_training_template(tokenizer, tools=True) is True
    assert tokenizer.chat_template == shipped_template(name)
    assert open_chat(tokenizer, [SEARCH]).prompt(QUESTION) == prompt


def test_an_unknown_template_that_rewrites_history_is_refused():
    tokenizer = make_tokenizer("mistral", UNKNOWN_FORGETFUL)
    with pytest.raises(PolicyError, match="rewrites earlier turns") as caught:
        open_chat(tokenizer)
    assert caught.value.where == "policy.model"
    assert "policy.chat_template" in caught.value.fix
    assert open_chat(tokenizer, multi_turn=False).prompt(QUESTION)


def test_a_system_prompt_that_moves_to_the_last_question_is_found():
    moves = (
        "{% set system = messages[0].content if messages[0].role == 'system' %}"
        "{% for m in messages if m.role != 'system' %}<s>{{ m.role }} {{ m.content }}"
        "{{ ' ' + system if system and loop.last and m.role == 'user' }}</s>{% endfor %}"
    )
    tokenizer = make_tokenizer("mistral")
    found = check_prefix(tokenizer, moves, tools=False)
    assert found is not None
    assert found.startswith("the chat template rewrites earlier turns: ' Answer in one word.")


def test_the_end_of_a_turn_that_becomes_another_token_is_found():
    # "\n" ends a turn and "\n" begins the next: as text a prefix, as tokens "\n\n" is one.
    lines = (
        "{% for m in messages %}{{ '\n' if not loop.first }}{{ m.content }}\n{% endfor %}"
        "{{ '\n' if add_generation_prompt }}"
    )
    tokenizer = make_tokenizer("mistral")
    assert tokenizer("a.\n\n").input_ids[:-1] == tokenizer("a.\n").input_ids[:-1]
    assert tokenizer("a.\n\n").input_ids[-1] != tokenizer("a.\n").input_ids[-1]
    assert check_prefix(
        tokenizer, lines, tools=False
    ) == "the end of a turn is another token when more follows: " + repr("\n</think>\n\nAnswer two.\n"[-20:])


def test_a_variant_of_a_family_with_another_first_prompt_is_refused():
    variant = STOCK["qwen3"].replace("# Tools", "# Functions")
    with pytest.raises(PolicyError, match="rewrites earlier turns"):
        open_chat(make_tokenizer("qwen3", variant))


def test_a_single_turn_keeps_the_stock_template_unless_it_takes_no_system_prompt():
    qwen = make_tokenizer("qwen3", STOCK["qwen3"])
    gemma = make_tokenizer("gemma", stock("gemma"))
    assert use_training_template(qwen, multi_turn=False) is False
    text = gemma.decode(open_chat(gemma, multi_turn=False).prompt([SYSTEM, *QUESTION]))
    assert text.startswith("<bos><start_of_turn>user\nAnswer in one word.\n\nWhich colour")


def test_tools_that_the_template_does_not_show_are_refused():
    silent = "{% for m in messages %}<s>{{ m.role }} {{ m.content }}</s>{% endfor %}"
    with pytest.raises(PolicyError, match="leaves out"):
        open_chat(make_tokenizer("mistral", silent), [SEARCH])


@pytest.mark.parametrize("name", FAMILIES)
def test_a_setting_may_name_a_shipped_template(name):
    tokenizer = make_tokenizer(name, UNKNOWN_FORGETFUL)
    apply_chat_template_setting(tokenizer, None, {})
    assert tokenizer.chat_template == UNKNOWN_FORGETFUL
    apply_chat_template_setting(tokenizer, name, {})
    assert tokenizer.chat_template == shipped_template(name)


def test_a_setting_may_name_a_file(tmp_path):
    tokenizer = make_tokenizer("chatml", UNKNOWN_FORGETFUL)
    file = tmp_path / "my.jinja"
    file.write_text("{% for m in messages %}{{ m.content }}{% endfor %}", encoding="utf-8")
    apply_chat_template_setting(tokenizer, str(file), {})
    assert tokenizer.chat_template == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["{% for m in %}", "{{ raise_exception('no') }}", "nothing of the question"])
def test_a_file_that_is_no_template_is_refused(tmp_path, text):
    file = tmp_path / "bad.jinja"
    file.write_text(text, encoding="utf-8")
    for setting in (str(file), str(tmp_path / "missing.jinja")):
        with pytest.raises(PolicyError) as caught:
            apply_chat_template_setting(make_tokenizer("chatml"), setting, {})
        assert caught.value.where == "policy.chat_template"
