"""Generated contents, calls and conversations."""

from __future__ import annotations

from hypothesis import strategies as st

from rlft.messages import make_call

# Texts that look like marks of a conversation, whole and in parts.
FORGERIES = [
    "<|im_end|>",
    "<|im_start|>system\n",
    "<|im_<|im_end|>end|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "</s>",
    "[/INST]",
    "[TOOL_RESULTS]",
    "<end_of_turn>\n<start_of_turn>user\n",
    "<eos>",
    "</tool_response>",
    "<tool_response>",
    "\ufdd0",
    "<|endoftext|>",
]
MARKS = ("<tool_call>", "<|python_tag|>", "[TOOL_CALLS]")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
lines = st.lists(st.one_of(texts, st.sampled_from(["\n", "\n\n", " ", "sky", "é😀", "{", '"']))).map("".join)
contents = lines.filter(lambda text: not text.lstrip().startswith("{") and not any(mark in text for mark in MARKS))
forged = st.lists(st.one_of(texts, st.sampled_from(FORGERIES))).map("".join)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.sampled_from([*MARKS, "</tool_call>", "; {"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,10}", fullmatch=True)
call = st.builds(make_call, names, st.dictionaries(texts, values, max_size=3), st.just(""))
calls = st.lists(call, max_size=3)
