"""Prompts that a model cannot read are found before anything is sampled."""

import pytest

from rlft.errors import PolicyError
from rlft.models.tokens import PromptCheck, character_tokenizer, check_prompts
from tests.factories import user

TOKENIZER = character_tokenizer("<>padeosunk .,'!?")


def check(text, tokenizer=TOKENIZER, room=4, longest=16):
    check_prompts(tokenizer, [("t7", [user(text)])], max_completion_length=room, context_length=longest)


def test_prompts_that_fit_pass(caplog):
    check("p" * 12)
    check("p" * 1000, longest=None)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("", "no tokens", "give the task another prompt"),
        ("pXYXp", "no token for ['X', 'Y']", "policy.from_scratch.characters"),
    ],
)
def test_prompts_that_do_not_are_refused(text, what, fix):
    with pytest.raises(PolicyError) as caught:
        check(text)
    assert caught.value.where == "task t7"
    assert what in caught.value.what
    assert fix in caught.value.fix


def test_prompts_without_room_are_named_and_refused_only_when_none_fits(caplog):
    prompts = [(str(n), [user("p" * n)]) for n in (12, 13, 15, 16, 20)]
    # 12 + 4 fit; 13 and 15 leave 3 and 1 of 4 tokens; 16 and 20 leave none
    found = check_prompts(TOKENIZER, prompts, max_completion_length=4, context_length=16)
    assert found == PromptCheck(16, ("16", "20"))
    assert "2 of 5 prompts leave less than the 4" in caplog.text
    with pytest.raises(PolicyError, match="every prompt is longer") as caught:
        check_prompts(TOKENIZER, prompts[3:], max_completion_length=4, context_length=16)
    assert "longer context" in caught.value.fix


def test_every_prompt_is_looked_at():
    prompts = [("good", [user("p")]), ("bad", [user("p"), user("Z")])]
    with pytest.raises(PolicyError, match="task bad"):
        check_prompts(TOKENIZER, prompts, max_completion_length=1, context_length=64)


def test_tasks_from_use_that_cannot_be_read_are_named_and_others_refused():
    prompts = [("t1", [user("pad")]), ("t2", [user("Zad")]), ("t3", [user("pad")]), ("t4", [user("")])]
    from_use = {"t1": "pad", "t2": "pad", "t3": "Z", "t4": "pad"}
    found = check_prompts(TOKENIZER, prompts, max_completion_length=4, context_length=16, from_use=from_use)
    assert found == PromptCheck(16, (), ("t2", "t3", "t4"))
    assert found.left_out == ("t2", "t3", "t4")
    with pytest.raises(PolicyError, match="task t2"):
        check_prompts(TOKENIZER, prompts, max_completion_length=4, context_length=16, from_use={"t3": "", "t4": ""})
