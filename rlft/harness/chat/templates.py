"""Chooses the chat template with which a conversation of several turns is rendered, and renders with it.

What a model has sampled is never rendered again, so the template must keep history: what stood in the prompt of one
turn must stand in the prompt of the next, letter by letter; `check_prefix` looks whether it does. Many stock templates
drop the thinking of earlier turns or move the tools to the last question. For the known families `templates/`
has a training template that does neither.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlft.environments.contract.marks import ToolSpec
from rlft.errors import PolicyError
from rlft.files import expanded
from rlft.messages import as_read, make_call
from rlft.types import ToolCall

# The templates in rlft/harness/chat/templates, by the names that `policy.chat_template` takes.
NAMES = ("qwen3", "llama3", "mistral", "gemma", "chatml")
DATE = "26 Jul 2024"  # held fixed in comparisons, since Llama's stock template writes today's date
TOOL = ToolSpec(
    "look_up",
    "Look a word up.",
    {"type": "object", "properties": {"word": {"type": "string", "description": "a word"}}, "required": ["word"]},
)
SYSTEM = {"role": "system", "content": "Answer in one word."}
QUESTION = [{"role": "user", "content": "Which colour is the sky?"}]


def stock_template(tokenizer: PreTrainedTokenizerBase, *, tools: bool = False) -> str | None:
    """Return the tokenizer's own template, `None` if it has none. Of several, `tools` chooses the one for tools."""
    if not tokenizer.chat_template:
        return None
    return tokenizer.get_chat_template(tools=[TOOL.to_json()] if tools else None)


def render(
    tokenizer: PreTrainedTokenizerBase,
    template: str,
    messages: Sequence[Any],
    tools: Sequence[Any] = (),
    *,
    add_generation_prompt: bool = False,
    **variables: Any,
) -> str:
    """Render messages with a template. `tools` are ToolSpecs or what `ToolSpec.to_json` returns.

    `variables` are passed to the template. Raises PolicyError if the template refuses the messages.
    """
    conversation = [_for_template(message) for message in messages]
    specs = [tool.to_json() if isinstance(tool, ToolSpec) else tool for tool in tools]
    try:
        text = tokenizer.apply_chat_template(
            conversation,
            tools=specs or None,
            chat_template=template,
            add_generation_prompt=add_generation_prompt,
            tokenize=False,
            **variables,
        )
    except Exception as error:  # a template is a program, which may raise anything
        raise PolicyError(
            f"the chat template does not take these messages ({', '.join(m['role'] for m in messages)}): {error}",
            where="policy.model",
            fix=how_to_fix(),
        ) from error
    return str(text)


def _for_template(message: Any) -> dict[str, Any]:
    """Return the message with the keys of its calls in one fixed order.

    Templates print them, and storage does not keep it.
    """
    result = as_read(message)
    calls = result.pop("tool_calls", None)
    if calls:
        functions = [(call["id"], call["function"]) for call in calls]
        result["tool_calls"] = [make_call(called["name"], called["arguments"], id) for id, called in functions]
    return result


def try_render(
    tokenizer: PreTrainedTokenizerBase,
    template: str,
    messages: Sequence[Any],
    tools: Sequence[ToolSpec],
) -> str | None:
    """Render a prompt as `render` does, with a fixed date; return `None` if the template refuses the messages."""
    try:
        return render(tokenizer, template, messages, tools, add_generation_prompt=True, date_string=DATE)
    except PolicyError:
        return None


def how_to_fix() -> str:
    """Return what a user can do about a template that cannot be used, as the `fix` of an error."""
    return (
        "set policy.chat_template to a file with a template that keeps every earlier turn as it was, "
        f"or to one of {', '.join(NAMES)}"
    )


def check_prefix(tokenizer: PreTrainedTokenizerBase, template: str, *, tools: bool = True) -> str | None:
    """Return what is wrong with how a template renders earlier turns; `None` if it keeps them as they were.

    Conversations with thinking in earlier turns, system prompts and, with `tools`, several calls in a turn and their
    results are rendered up to the beginning and up to the end of each turn of the assistant. Every such text must be a
    prefix of the next one, the tokens up to the end of a turn must be a prefix of the tokens of the next, and what
    assistant and tools said must be in the last. (At the beginning of a turn the tokens may differ, as the model
    samples its own.)
    """
    for messages in _conversations(tools=tools):
        specs = (TOOL,) if tools else ()
        try:
            texts = _renderings(tokenizer, template, messages, specs)
        except PolicyError as error:
            return error.what
        for before, after in itertools.pairwise(texts):
            if not after.startswith(before):
                return f"the chat template rewrites earlier turns: {_difference(before, after)}"
        for before, after in zip(texts[1::2], texts[2::2], strict=False):
            ids = [tokenizer(text, add_special_tokens=False).input_ids for text in (before, after)]
            if ids[1][: len(ids[0])] != ids[0]:
                return f"the end of a turn is another token when more follows: {before[-20:]!r}"
        if lost := [text for text in _said(messages) if text not in texts[-1]]:
            return f"the chat template leaves out what was said: {lost[0]!r}"
        if tools and TOOL.name not in texts[0]:
            return "the chat template does not describe tools"
    return None


def _conversations(*, tools: bool) -> list[list[dict[str, Any]]]:
    """Two conversations, without and with a system prompt, with thinking and, if there are tools, with calls.

    One turn has two calls beside its text, one has a call and no text.
    """
    thoughts = "<think>\nThought {0}.\n</think>\n\nAnswer {0}."
    turns: list[dict[str, Any]] = [*QUESTION]
    if tools:
        turns += [
            {"role": "assistant", "content": thoughts.format("one"), "tool_calls": [_call(1), _call(2)]},
            _result(1),
            _result(2),
        ]
    turns += [
        {"role": "assistant", "content": thoughts.format("two")},
        {"role": "user", "content": "And at night?"},
        {"role": "assistant", "content": thoughts.format("three")},
        {"role": "user", "content": "And at dawn?"},
    ]
    if tools:
        turns += [{"role": "assistant", "content": "", "tool_calls": [_call(3)]}, _result(3)]
    turns += [{"role": "assistant", "content": thoughts.format("four")}]
    return [turns, [SYSTEM, *turns]]


def _call(number: int) -> ToolCall:
    return make_call(TOOL.name, {"word": f"word{number}"}, f"call{number:05d}")


def _result(number: int) -> dict[str, Any]:
    return {"role": "tool", "content": f"result{number}", "name": TOOL.name, "tool_call_id": f"call{number:05d}"}


def _said(messages: Sequence[dict[str, Any]]) -> list[str]:
    contents = [m["content"] for m in messages if m["role"] in ("assistant", "tool")]
    return contents + [call["function"]["arguments"]["word"] for m in messages for call in m.get("tool_calls", ())]


def _renderings(
    tokenizer: PreTrainedTokenizerBase, template: str, messages: Sequence[dict[str, Any]], tools: Sequence[ToolSpec]
) -> list[str]:
    """For every turn of the assistant, in order: the rendering up to its beginning, and up to its end."""
    texts = []
    for end, message in enumerate(messages):
        if message["role"] == "assistant":
            texts.append(render(tokenizer, template, messages[:end], tools, add_generation_prompt=True))
            texts.append(render(tokenizer, template, messages[: end + 1], tools))
    return texts


def _difference(before: str, after: str) -> str:
    same = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    return f"{before[same : same + 40]!r} becomes {after[same : same + 40]!r}"


_END_OF_VARIABLES = "{#- the variables of policy.chat_template_kwargs end here -#}"


# Each family is known by texts in the stock template and by tokens in the vocabulary. The first that fits is taken:
# qwen3 stands before chatml, whose marks its template has too.
_FAMILIES = {
    "qwen3": (("<|im_start|>", "</think>", "<tool_call>"), ("<|im_start|>", "<|im_end|>")),
    "chatml": (("<|im_start|>",), ("<|im_start|>", "<|im_end|>")),
    "llama3": (("<|start_header_id|>",), ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")),
    "gemma": (("<start_of_turn>",), ("<start_of_turn>", "<end_of_turn>")),
    "mistral": (("[INST]",), ("[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]")),
}


def family(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """Return the family of the tokenizer's stock template, or `None` if it is of no known one."""
    template, vocabulary = stock_template(tokenizer, tools=True) or "", tokenizer.get_vocab()
    for name, (texts, tokens) in _FAMILIES.items():
        if all(text in template for text in texts) and all(token in vocabulary for token in tokens):
            return name
    return None


def shipped_template(name: str, *, gap: str = "") -> str:
    """Return the text of a shipped template. `gap` is the space after a mark in Mistral's SentencePiece versions."""
    text = (files("rlft.harness.chat") / "templates" / f"{name}.jinja").read_text(encoding="utf-8")
    return text.replace("set gap = ''", f"set gap = '{gap}'", 1)


def training_template(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """Return the shipped template of the tokenizer's family, if it renders first prompts as the stock template does.

    It is `None` for an unknown family, and where a first prompt would be different (for an unknown variant of the
    family): the model would be trained in a form that it has not learnt. Prompts are compared with and without a system
    prompt and with and without a tool, as far as the stock template takes them.
    """
    name, stock = family(tokenizer), stock_template(tokenizer, tools=True)
    if name is None or stock is None:
        return None
    given, end, _ = stock.rpartition(_END_OF_VARIABLES)
    template = given + end + shipped_template(name, gap=" " if "[INST] " in stock else "")
    for messages in (QUESTION, [SYSTEM, *QUESTION]):
        for tools in ((), (TOOL,)):
            expected = try_render(tokenizer, stock, messages, tools)
            is_taken = expected is not None and all(tool.name in expected for tool in tools)
            if is_taken and expected != try_render(tokenizer, template, messages, tools):
                return None
    return template


def choose_template(tokenizer: PreTrainedTokenizerBase, *, tools: bool = False, multi_turn: bool = True) -> str | None:
    """Return the stock template if it keeps history, else the family's training template; `None` without a stock one.

    A single turn without tools has no history: there the stock template is kept if it takes a system prompt. Raises
    PolicyError for a template that rewrites history and is of no known family.
    """
    stock = stock_template(tokenizer, tools=tools)
    if stock is None:
        return None
    if not (multi_turn or tools):
        takes_system = try_render(tokenizer, stock, [SYSTEM, *QUESTION], ()) is not None
        return stock if takes_system else training_template(tokenizer) or stock
    fault = check_prefix(tokenizer, stock, tools=tools)
    if fault is None:
        return stock
    template = training_template(tokenizer)
    if template is None:
        raise PolicyError(fault, where="policy.model", fix=how_to_fix())
    if fault := check_prefix(tokenizer, template, tools=tools):
        raise PolicyError(fault, where="policy.model", fix=how_to_fix())
    return template


def use_training_template(tokenizer: PreTrainedTokenizerBase, *, tools: bool = False, multi_turn: bool = True) -> bool:
    """Give the tokenizer the template that `open_chat` would use, so that a saved policy is served with it.

    Returns whether the template has changed. Raises as `choose_template` does.
    """
    template = choose_template(tokenizer, tools=tools, multi_turn=multi_turn)
    if template is None or template == stock_template(tokenizer, tools=tools):
        return False
    tokenizer.chat_template = template
    return True


def apply_chat_template_setting(
    tokenizer: PreTrainedTokenizerBase, setting: str | None, variables: Mapping[str, bool | int | str]
) -> None:
    """Give the tokenizer the template of `policy.chat_template`: a shipped name, or a file. `None` is its own.

    The `variables` are set at its beginning, so that whoever renders with it has them. Raises PolicyError if the file
    cannot be read, or the template cannot render a question or does not know a variable.
    """
    where = "policy.chat_template"
    if setting in NAMES:
        stock = stock_template(tokenizer) or ""
        tokenizer.chat_template = shipped_template(setting, gap=" " if "[INST] " in stock else "")
    elif setting is not None:
        try:
            tokenizer.chat_template = expanded(setting).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PolicyError(
                f"{setting!r} is no template: {error}", where=where, fix=f"name a file, or one of {', '.join(NAMES)}"
            ) from error
    template = stock_template(tokenizer, tools=True) or ""
    if unknown := [name for name in variables if not re.search(rf"\b{name}\b", template)]:
        what = f"the chat template knows no variable {unknown[0]}" if template else "there is no chat template"
        raise PolicyError(what, where="policy.chat_template_kwargs", fix="leave it out, or see what the template reads")
    if variables:
        given = "".join(f"{{%- set {name} = {value!r} -%}}" for name, value in variables.items()) + _END_OF_VARIABLES
        tokenizer.chat_template = given + template.rpartition(_END_OF_VARIABLES)[2]
    if setting is None and not variables:
        return
    try:
        text = render(tokenizer, str(stock_template(tokenizer)), QUESTION, add_generation_prompt=True)
    except PolicyError as error:
        raise PolicyError(error.what, where=where, fix="mend the template") from error
    if QUESTION[0]["content"] not in text:
        raise PolicyError(f"{setting!r} renders a question without its text", where=where, fix="mend the template")
