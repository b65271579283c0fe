"""rlft.reporting.highest_paid: the attempts that a reward pays most, as text that cannot run."""

from __future__ import annotations

from dataclasses import replace

from rlft.reporting.highest_paid import highest_paid, highest_paid_page
from rlft.types import Reward, Rewards, Rollouts
from tests.rlft.attempts import answered, make_task

TASK, OTHER = make_task("t", "The capital of Peru?", "Lima"), make_task("o", "Two and two?", {"sum": 4})
TASKS = {"t": TASK, "o": OTHER}


def round_of(*paid):
    """Rollouts and rewards of (task, text, total)."""
    rows = [
        replace(row, rollout_id=f"r{place}")
        for place, (task, text, _) in enumerate(paid)
        for row in answered(task, text)
    ]
    rewards = [
        Reward(row.rollout_id, row.task_id, total, {"right": total}, False, None, None, 0.0)
        for row, (_, _, total) in zip(rows, paid, strict=True)
    ]
    return Rollouts(tuple(rows)), Rewards(tuple(rewards), {"right": 1.0})


def test_the_best_come_first_and_equal_texts_at_a_task_once_with_their_number():
    rollouts, rewards = round_of(
        (TASK, "Lima", 1.0), (TASK, "Lima", 1.0), (OTHER, "Lima", 0.5), (TASK, "Cusco", None), (TASK, "Arequipa", 0.25)
    )
    found = highest_paid(rollouts, rewards, TASKS, 2)
    assert [(each.task_id, each.total, each.copies) for each in found] == [("t", 1.0, 2), ("o", 0.5, 1)]
    assert [each.right for each in found] == ["Lima", '{"sum": 4}']
    assert found[0].messages == (("user", "The capital of Peru?"), ("assistant", "Lima"))
    # One without a score is not among them, however few there are.
    assert len(highest_paid(rollouts, rewards, TASKS, 20)) == 3


def test_calls_of_tools_and_their_results_are_shown():
    rollouts, rewards = round_of((TASK, "Lima", 1.0))
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": {"for": "Perú"}}}
    (row,) = rollouts
    messages = (
        row.messages[0],
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "Lima is.", "tool_call_id": "1"},
        row.messages[-1],
    )
    changed = Rollouts((replace(row, messages=messages),))
    (found,) = highest_paid(changed, rewards, TASKS, 20)
    assert found.messages[1:3] == (("assistant", 'look({"for": "Perú"})'), ("tool", "Lima is."))


def test_nothing_that_an_attempt_says_can_run_and_long_texts_are_cut():
    hostile = "</pre><script>alert(1)</script>\x1b[31m\u202e" + "x" * 5000
    rollouts, rewards = round_of((TASK, hostile, 0.125), (TASK, hostile, 0.125))
    page = highest_paid_page("a<b", 7, highest_paid(rollouts, rewards, TASKS, 20), len(rollouts))
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "more characters)" in page
    assert "a&lt;b, round 7: the 1 highest-paid attempts" in page
    assert "Reward 0.125</strong>, right 0.125; 2 attempts at the task say the same" in page
    assert "Of 2 attempts of the round" in page
    assert "default-src 'none'" in page
