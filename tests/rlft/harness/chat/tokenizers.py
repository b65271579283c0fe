"""Small byte-level tokenizers with the special tokens and the stock templates of the families."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from rlft.environments.contract.marks import ToolSpec
from rlft.harness.chat.templates import shipped_template

SENTENCES = [
    "The system answers the user; the assistant calls a function with its arguments and gets a result.",
    'You may call one or more functions. {"name": "search", "arguments": {"query": "the sky at night"}}',
    "Thinking is kept.\n\nAnd so are lines.\nWhich colour is the sky?\n\n\n",
]

# How Llama 3 and Qwen part words: all newlines in a row go together.
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

# (special tokens, added tokens that are not special, start token, end token)
TOKENS = {
    "qwen3": (
        ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"],
        None,
        "<|im_end|>",
    ),
    "chatml": (["<|im_start|>", "<|im_end|>"], [], None, "<|im_end|>"),
    "llama3": (
        [
            "<|begin_of_text|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eot_id|>",
            "<|eom_id|>",
            "<|python_tag|>",
        ],
        [],
        "<|begin_of_text|>",
        "<|eot_id|>",
    ),
    "mistral": (
        [
            "<s>",
            "</s>",
            "[INST]",
            "[/INST]",
            "[TOOL_CALLS]",
            "[AVAILABLE_TOOLS]",
            "[/AVAILABLE_TOOLS]",
            "[TOOL_RESULTS]",
            "[/TOOL_RESULTS]",
        ],
        [],
        "<s>",
        "</s>",
    ),
    "gemma": (["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"], [], "<bos>", "<eos>"),
}
FAMILIES = tuple(TOKENS)

SEARCH = ToolSpec(
    "search",
    "Search the pages.",
    {"type": "object", "properties": {"query": {"type": "string", "description": "words"}}, "required": ["query"]},
)


@cache
def _trained() -> str:
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(WORDS), "isolated"), byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet))
    return tokenizer.to_str()


def make_tokenizer(family: str, template: str | None = None) -> PreTrainedTokenizerFast:
    """A tokenizer of a family with a template; its training template if none is given."""
    special, added, bos, eos = TOKENS[family]
    tokenizer = Tokenizer.from_str(_trained())
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special])
    tokenizer.add_tokens([AddedToken(name, special=False, normalized=False) for name in added])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos, eos_token=eos)
    fast.chat_template = shipped_template(family) if template is None else template
    return fast


def stock(name: str) -> str:
    """A stock template as TRL ships it for comparison."""
    spec = find_spec("trl")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


# Mistral Nemo's form, shortened: system prompt and tools go to the last question.
MISTRAL_STOCK = """
{%- if messages[0]['role'] == 'system' %}
    {%- set system, messages = messages[0]['content'], messages[1:] %}
{%- endif %}
{%- set questions = messages | selectattr('role', 'equalto', 'user') | list %}
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {%- if tools is not none and message == questions[-1] %}
            {{- '[AVAILABLE_TOOLS][' }}
            {%- for tool in tools %}
                {{- '{"type": "function", "function": {"name": "' + tool.function.name + '", "description": "' }}
                {{- tool.function.description + '", "parameters": ' + (tool.function.parameters | tojson) + '}}' }}
                {{- ', ' if not loop.last else ']' }}
            {%- endfor %}
            {{- '[/AVAILABLE_TOOLS]' }}
        {%- endif %}
        {%- if system is defined and loop.last %}
            {{- '[INST]' + system + '\n\n' + message.content + '[/INST]' }}
        {%- else %}
            {{- '[INST]' + message.content + '[/INST]' }}
        {%- endif %}
    {%- elif message.tool_calls is defined %}
        {{- '[TOOL_CALLS]' + (message.tool_calls | map(attribute='function') | list | tojson) + eos_token }}
    {%- elif message.role == 'assistant' %}
        {{- message.content + eos_token }}
    {%- else %}
        {{- '[TOOL_RESULTS]{"content": ' + message.content + ', "call_id": "' + message.tool_call_id + '"}' }}
        {{- '[/TOOL_RESULTS]' }}
    {%- endif %}
{%- endfor %}
"""

# ChatML that forgets the thoughts of earlier turns.
CHATML_FORGETFUL = """
{%- for message in messages %}
    {%- set text = message.content if loop.last else message.content.split('</think>')[-1] %}
    {{- '<|im_start|>' + message.role + '\n' + text + '<|im_end|>\n' }}
{%- endfor %}
{{- '<|im_start|>assistant\n' if add_generation_prompt }}
"""

# No family that we know, and forgetful.
UNKNOWN_FORGETFUL = CHATML_FORGETFUL.replace("<|im_start|>", "<s>").replace("<|im_end|>", "</s>")
