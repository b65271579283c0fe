"""Chooses the chat template with which a conversation of several turns is rendered.

What a model has sampled is never rendered again, so the template must keep history: what stood in the prompt of one
turn must stand in the prompt of the next, letter by letter. Many stock templates drop the thinking of earlier turns or
move the tools to the last question. For the known families `rlft/chat/templates` has a training template that does
neither.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from transformers import PreTrainedTokenizerBase

from rlft.chat.history import check_prefix
from rlft.chat.rendering import NAMES, QUESTION, SYSTEM, TOOL, how_to_fix, render, stock_template, try_render
from rlft.errors import PolicyError
from rlft.files import expanded

_END_OF_VARIABLES = "{#- the variables of policy.chat_template_kwargs end here -#}"


@dataclass(frozen=True, slots=True)
class _Family:
    """A family of templates, known by texts in the stock template and by tokens in the vocabulary."""

    name: str
    in_template: tuple[str, ...]
    in_vocabulary: tuple[str, ...]


# The first that fits is taken: qwen3 stands before chatml, whose marks its template has too.
_FAMILIES = (
    _Family("qwen3", ("<|im_start|>", "</think>", "<tool_call>"), ("<|im_start|>", "<|im_end|>")),
    _Family("chatml", ("<|im_start|>",), ("<|im_start|>", "<|im_end|>")),
    _Family("llama3", ("<|start_header_id|>",), ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")),
    _Family("gemma", ("<start_of_turn>",), ("<start_of_turn>", "<end_of_turn>")),
    _Family("mistral", ("[INST]",), ("[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]")),
)


def family(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """Return the family of the tokenizer's stock template, or `None` if it is of no known one."""
    template = stock_template(tokenizer, tools=True)
    if template is None:
        return None
    vocabulary = tokenizer.get_vocab()
    for each in _FAMILIES:
        if all(text in template for text in each.in_template) and all(t in vocabulary for t in each.in_vocabulary):
            return each.name
    return None


def shipped_template(name: str, *, gap: str = "") -> str:
    """Return the text of a shipped template. `gap` is the space after a mark in Mistral's SentencePiece versions."""
    text = (files("rlft.chat") / "templates" / f"{name}.jinja").read_text(encoding="utf-8")
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
            expected = try_render(tokenizer, stock, messages, tools, add_generation_prompt=True)
            is_taken = expected is not None and all(tool.name in expected for tool in tools)
            if is_taken and expected != try_render(tokenizer, template, messages, tools, add_generation_prompt=True):
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
        takes_system = try_render(tokenizer, stock, [SYSTEM, *QUESTION], (), add_generation_prompt=True) is not None
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
