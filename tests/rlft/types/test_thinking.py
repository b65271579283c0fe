"""What a model thought is parted from what it answered, wherever its turns are read."""

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import rlft
from rlft.config import RewardConfig
from rlft.evaluation.variety import answer_counts
from rlft.harness.chat.conversation import open_chat
from rlft.rewards.audit.matching import _said
from rlft.rewards.scoring import score_rollouts
from rlft.types.thinking import answer_of, is_open, part
from tests.rlft.attempts import answered, make_task
from tests.rlft.harness.chat.tokenizers import SEARCH, make_tokenizer

TASK = make_task("t", "6 * 7?", "42")
THOUGHT = "<think>\nIs it 41? {}\n</think>\n\n"
CALL = '<tool_call>\n{"name": "search", "arguments": {"query": "sky"}}\n</tool_call>'
OTHERS = [
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<THINK>", "</Think>"),
    ("<think >", "</think\n>"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought\n", "<channel|>"),
]
HARMONY = ("<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|return|>")
COHERE = ("<|START_THINKING|>", "<|END_THINKING|>")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (" 42\n", " 42\n"),  # no thought: nothing is touched
        ("<think>41?</think>\n\n42", "42"),
        ("41?\n</think>\n\n42", "42"),  # its prompt has opened the thought
        ("Sure.\n<think>41?</think> no <think>b</think> 42", "42"),  # the last closed thought
        ("[THINK]41?[/THINK]42", "42"),
        ("<think>perhaps 42", ""),
        ("<think>41?</think>42 <think>or 41", ""),
        ("<|channel|>analysis<|message|>41?<|start|>assistant<|channel|>final<|message|>42", "42"),
        ("<|channel|>analysis<|message|>perhaps 42", ""),
        ("<|channel|>final<|message|>42", "42"),
        *((f"{opens}41?{closes}\n42", "42") for opens, closes in OTHERS),
        *((f"{opens}perhaps 42", "") for opens, _ in OTHERS),
        ("", ""),
    ],
)
def test_the_answer_is_what_follows_the_last_closed_thought(text, answer):
    thinking, said = part(text)
    assert said == answer
    assert text.startswith(thinking)
    assert part(said) == ("", said)  # parted again it stays
    assert answer_of([{"role": "user", "content": "?"}, {"role": "assistant", "content": text}]) == answer


class Asks(rlft.BaseEnv):
    @rlft.reward
    def right(self, text, ground_truth):
        return float(text == ground_truth)

    @rlft.reward
    def said(self, completion):
        return float(completion[-1]["content"] == completion.text and completion.turns[0].message == completion[-1])

    @rlft.metric
    def thinks(self, thinking):
        return float("41" in thinking)


def test_rewards_votes_variety_and_known_attacks_get_the_answer_and_who_asks_the_thoughts():
    rollouts = answered(TASK, THOUGHT.format("") + "42", "42", "<think>41, or 42")
    rewards = list(score_rollouts(rollouts, {"t": TASK}, Asks(), RewardConfig(timeout_seconds=5.0)))
    assert [row.parts for row in rewards] == [
        {"right": 1.0, "said": 1.0, "thinks": 1.0},
        {"right": 1.0, "said": 1.0, "thinks": 0.0},
        {"right": 0.0, "said": 1.0, "thinks": 1.0},
    ]
    assert [row.answer for row in rewards] == ["42", "42", None]
    assert answer_counts(zip(rollouts, rewards, strict=True)) == {"42": 2, "": 1}
    assert _said(rollouts.rows[0].messages) == _said(rollouts.rows[1].messages) == ("42", "")


@pytest.mark.parametrize("text", [THOUGHT.format(CALL), "Sure.\n" + THOUGHT.format(CALL), f"<think>\nI could {CALL}"])
def test_calls_in_thoughts_are_not_run(text):
    tokenizer = make_tokenizer("qwen3")
    turn = open_chat(tokenizer, [SEARCH]).read(tokenizer(text + "No.").input_ids)
    assert (turn.tool_calls, turn.invalid_tool_calls, turn.content) == ((), (), text + "No.")


def test_a_prompt_that_opens_a_thought_shows_in_what_is_kept_of_the_turn():
    tokenizer = make_tokenizer("qwen3", "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n")
    chat = open_chat(tokenizer, multi_turn=False)
    prompt, sampled = chat.prompt([{"role": "user", "content": "6 * 7?"}]), tokenizer("41, or 42").input_ids
    assert chat.opens_thought(prompt)
    assert chat.text(sampled, opened=True) == chat.read(sampled, opened=True).content == "<think>\n41, or 42"
    assert is_open("6 * 7?<|START_THINKING|>")
    assert not is_open("<think>\n\n</think>\n\n")  # a template that leaves the thought out


def test_special_tokens_that_mark_thoughts_are_kept_and_others_are_not():
    mistral = make_tokenizer("mistral")
    ids = mistral("[THINK]41?[/THINK]42</s>", add_special_tokens=False).input_ids
    assert open_chat(mistral).text(ids) == "[THINK]41?[/THINK]42"
    alphabet = {each: place for place, each in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    letters = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    letters.pre_tokenizer, letters.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    letters.add_special_tokens([AddedToken(each, special=True, normalized=False) for each in HARMONY + COHERE])
    gpt_oss = PreTrainedTokenizerFast(tokenizer_object=letters, eos_token="<|return|>")
    said = "<|channel|>analysis<|message|>41?<|end|><|start|>assistant<|channel|>final<|message|>42<|return|>"
    assert part(open_chat(gpt_oss).text(gpt_oss(said).input_ids)).answer == "42"
    said = "<|START_THINKING|>41?<|END_THINKING|>42<|return|>"
    assert part(open_chat(gpt_oss).text(gpt_oss(said).input_ids)).answer == "42"
