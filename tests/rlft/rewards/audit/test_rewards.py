import json
import re
import time

import pytest

import rlft
from rlft.config import HarnessConfig
from rlft.config.environment import PLAIN
from rlft.config.section import SPECIFICATION
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import load_environment
from rlft.errors import ConfigError
from rlft.harness.scripted import as_script
from rlft.messages import as_openai, make_call
from rlft.rewards.audit.attacks.base import Pool, other_gold
from rlft.rewards.audit.rewards import AuditReport
from tests.rlft.attempts import audited, make_task

TASKS = [make_task(f"t{n}", f"What is {n}+{n}?", str(2 * n)) for n in range(1, 7)]


class Pays(BaseEnv):
    """An environment that pays what a function of (text, gold, prompt) says."""

    def __init__(self, pay, gold=True):
        self.pay, self.gold = pay, gold

    async def compute_reward(self, completion, ground_truth):
        return {"part": self.pay(completion.text, ground_truth, completion.task.prompt[0]["content"])}

    def gold_completion(self, task):
        return super().gold_completion(task) if self.gold else None


def exact(text, gold, prompt):
    return float(text == gold)


def audit(pay, tasks=TASKS, *, gold=True, **settings) -> AuditReport:
    return audited(tasks, Pays(pay, gold), **{"timeout_seconds": 2.0, **settings})


def test_all_tasks_without_an_answer_are_counted_and_one_of_them_is_tried():
    # Of 60 tasks 2 have no answer; of 5 that are tried one is such a task, and its error fails the audit.
    tasks = [make_task(f"n{n}", f"What is {n}+{n}?", None if n in (7, 31) else str(2 * n)) for n in range(60)]
    report = audit(lambda text, gold, prompt: float(text == gold.strip()), tasks, max_tasks=5)
    assert (report.passed, report.num_tasks) == (False, 5)
    assert report.findings[0] == "2 of 60 tasks have no answer or no gold, for example n7"
    assert any("could not be scored on 1 task, for example n7" in finding for finding in report.findings)


def test_an_exact_reward_passes_with_no_findings():
    report = audit(exact)
    assert (report.passed, report.compares) == (True, True)
    assert report.findings == ()
    assert report.attacks["gold"].mean == 1.0
    assert report.attacks["empty"].mean == report.attacks["echo"].maximum == 0.0
    assert list(report.attacks)[:6] == [
        "gold", "empty", "echo", "constant", "other_gold", "most_common",
    ]  # fmt: skip
    # The most common gold is the right answer of one task of six and is no attack there.
    assert [scores.count for scores in report.attacks.values()][:6] == [6, 6, 6, 6, 6, 5]
    assert report.attacked == report.num_tasks == 6
    assert report.attempts == sum(scores.count for scores in report.attacks.values()) + 14 * 6
    # One kind has a second variant, and others three and ten more.


@pytest.mark.parametrize(
    ("pay", "kind"),
    [
        (lambda text, gold, prompt: float(text in gold), "empty"),  # "" is in every text
        (lambda text, gold, prompt: float(text in (gold, prompt)), "echo"),
        (lambda text, gold, prompt: float(bool(text.strip())), "constant"),
        (lambda text, gold, prompt: float(text.isdigit()), "other_gold"),
        (lambda text, gold, prompt: float(text in (gold, "2")), "most_common"),
    ],
)
def test_a_reward_that_pays_an_attack_is_caught(pay, kind):
    report = audit(pay)
    assert not report.passed
    assert any(finding.startswith(f"{kind} earns as much as gold on") for finding in report.findings), report.findings
    assert "for example t" in report.text()


def test_an_attack_on_one_task_is_enough_to_fail():
    # The mean is fine (1/6 below 1), the one task is not.
    report = audit(lambda text, gold, prompt: float(text == gold or (text == "" and gold == "6")))
    assert not report.passed
    assert [f for f in report.findings if f.startswith("empty")] == [
        "empty earns as much as gold on 1 task, for example t3: 1 from {'part': 1.0}"
    ]


def test_a_gold_that_is_not_full_is_caught():
    report = audit(lambda text, gold, prompt: 0.5 * (text == gold))
    assert report.findings == ("gold is not full on 6 tasks, for example t1: 0.5 from {'part': 0.5}",)
    assert not report.passed
    assert audit(lambda text, gold, prompt: 0.5 * (text == gold), full=0.5).passed


def test_a_reward_of_ten_of_one_is_a_finding_that_names_a_task():
    report = audit(lambda text, gold, prompt: 10.0 * (text == gold))
    assert not report.passed
    (finding,) = report.findings
    assert finding.startswith(
        "gold could not be scored on 6 tasks, for example t1: compute_reward: part 'part' is above its maximum: "
        "10 of 1; what to do: return 1 for what is full, or declare another maximum"
    )
    attack = audit(lambda text, gold, prompt: float(text == gold) or 2.0 * (text == ""))
    assert attack.findings[0].startswith(
        "empty could not be scored on 6 tasks, for example t1: compute_reward: part 'part'"
    )


class Forgetful(Pays):
    """Has a second part, and forgets to return it."""

    async def compute_reward(self, completion, ground_truth):
        return {"queue": None, **await super().compute_reward(completion, ground_truth)}


def test_a_part_that_is_none_on_every_task_is_said_instead_of_what_follows_from_it():
    settings = {"timeout_seconds": 2.0}
    forgetful = Forgetful(lambda text, gold, prompt: float(text.isdigit()))
    report = audited(TASKS, forgetful, **settings)
    said = "part queue is None on every task; what to do: return a score (is a `return` missing?), or give the weight 0"
    assert (report.findings, report.passed) == ((said,), False)
    # not all tasks were tried: a part may apply to those that were not
    report = audited(TASKS, Forgetful(exact), max_tasks=3, **settings)
    (note,) = report.findings
    assert note.startswith("part queue is None on the 3 tasks tried; what to do: ")
    assert report.passed
    assert audited(TASKS, Forgetful(exact), weights={"queue": 0.0}, **settings).findings == ()
    # without a gold nobody knows what a part would have applied to
    assert audited(TASKS, Forgetful(lambda *_: 0.0, gold=False), **settings).passed


def test_a_reward_without_any_return_is_said_once_for_all_attempts():
    report = audited(TASKS, Pays(lambda *_: None), timeout_seconds=2.0)
    # How many kinds there are is of no account here.
    assert [re.sub("and [0-9]{2} more", "and N more", each.split(";")[0]) for each in report.findings] == [
        "part part is None on every task",
        "gold, empty, echo, constant, other_gold, colon and N more could not be scored on 6 tasks, for example "
        "t1: compute_reward: no part with a weight applies (parts: {'part': None})",
    ]
    assert "mean" not in report.text()  # nothing was scored, so there is no table


def test_a_weight_of_no_part_is_an_error_with_the_nearest_name():
    with pytest.raises(ConfigError) as caught:
        audit(exact, weights={"prat": 2.0})
    assert (caught.value.where, caught.value.what) == ("reward.weights", "no rollout has a part named 'prat'")
    assert caught.value.fix == "did you mean part? The parts are: part"
    with pytest.raises(ConfigError) as caught:
        audit(exact, weights={"length": 2.0})
    assert caught.value.fix == "The parts are: part"


def test_another_tasks_gold_with_the_same_final_answer_is_no_attack():
    class Numbers(Pays):
        def final_answer(self, completion):
            return completion.text.removesuffix(".0") or None

    same = [make_task("a", "1+1?", "2"), make_task("b", "4-2?", "2.0")]
    numbers = Numbers(lambda text, gold, prompt: float(text.removesuffix(".0") == gold.removesuffix(".0")))
    report = audited(same, numbers, timeout_seconds=2.0)
    assert report.passed
    assert report.attacks["other_gold"].count == 0
    assert [finding.partition(":")[0] for finding in report.findings] == ["no gold is a wrong answer at another task"]


def test_without_gold_the_attacks_must_stay_below_full():
    fine = audit(lambda text, gold, prompt: 0.7, gold=False)
    assert (fine.passed, fine.compares) == (True, False)
    assert "no task has a gold completion" in fine.findings[0]
    # 1.0 of 1.2 is more than three quarters
    echo = audit(lambda text, gold, prompt: float(text == prompt), gold=False, full=1.2)
    assert (echo.passed, echo.exploits) == (False, ("echo",))
    bad = audit(lambda text, gold, prompt: 1.0, gold=False)
    assert not bad.passed
    assert bad.findings[0].startswith("empty is full on 6 tasks, for example t1")


def test_scores_that_fail_are_findings():
    def fails_on_silence(text, gold, prompt):
        return float(text == gold) if text[0] else 0.0

    report = audit(fails_on_silence)
    assert not report.passed
    said = "empty could not be scored on 6 tasks, for example t1: compute_reward: IndexError: string index out of range"
    assert report.findings[0].startswith(f"{said}, at tests/rlft/rewards/audit/test_rewards.py:")


def test_a_gold_that_fails_is_no_attempt_to_be_scored_low():
    report = audit(lambda text, gold, prompt: 1 / 0)
    assert report.findings[0].startswith("gold, empty")
    assert "lowest score" not in report.findings[0]


@pytest.mark.slow
def test_a_hanging_reward_is_a_finding_with_its_way_out():
    def stuck(text, gold, prompt):
        while True:
            pass

    (finding,) = audit(stuck, timeout_seconds=0.02).findings
    assert finding.startswith("scoring stopped: the reward hangs")
    assert "; what to do: look for endless loops" in finding


def test_a_gold_completion_that_raises_is_a_finding():
    class Broken(Pays):
        def gold_completion(self, task):
            raise KeyError("entry")

    report = audited(TASKS, Broken(exact), timeout_seconds=2.0)
    assert not report.passed
    said = "gold_completion failed on 6 of 6 tasks, for example t1: KeyError: 'entry'"
    assert report.findings[0].startswith(f"{said}, at tests/rlft/rewards/audit/test_rewards.py:")


def test_the_other_gold_is_one_that_differs():
    golds = {"t1": as_script("same"), "t2": as_script("same"), "t3": as_script("different")}
    for seed in range(10):
        other = other_gold(TASKS[0], TASKS[:3], golds, Pool.of(golds, TASKS[:3]), seed)
        assert other is not None
        assert (other.script, other.answer) == (as_script("different"), "different")


def test_no_tasks_is_a_finding():
    assert not audit(exact, []).passed


def test_the_sample_is_bounded_and_repeatable():
    tasks = [make_task(f"t{n}", f"{n}?", str(n)) for n in range(200)]
    report = audit(exact, tasks, max_tasks=20, seed=1)
    assert report.num_tasks == 20
    assert report == audit(exact, tasks, max_tasks=20, seed=1)


def test_the_report_is_json():
    report = audit(exact)
    assert json.loads(json.dumps(report.to_json()))["attacks"]["gold"]["mean"] == 1.0


class AfterTwoLooks(BaseEnv):
    """Gold looks twice before it answers."""

    @rlft.tool
    def look(self, state: dict) -> str:
        """Look."""
        state["looks"] = state.get("looks", 0) + 1
        return "seen"

    @rlft.reward
    def careful(self, text, ground_truth, state):
        return float(text == ground_truth and state.get("looks", 0) == 2)

    def gold_completion(self, task):
        call = make_call("look", {}, "1")
        looks = {"role": "assistant", "content": "", "tool_calls": [call]}
        return [looks, looks, {"role": "assistant", "content": task.answer}]


class AfterTwoLooksElsewhere(AfterTwoLooks):
    """Its gold is written as OpenAI's clients write messages."""

    def gold_completion(self, task):
        return [as_openai(message) for message in super().gold_completion(task)]


def test_a_gold_as_openai_writes_it_is_played():
    report = audited(TASKS, AfterTwoLooksElsewhere(), timeout_seconds=2.0)
    assert report.passed, report.findings


@pytest.mark.parametrize(("turns", "passed"), [(3, True), (1, False)])
def test_a_gold_that_the_limits_cut_off_is_a_finding(turns, passed):
    limits = HarnessConfig(max_turns=turns)
    report = audited(TASKS, AfterTwoLooks(), timeout_seconds=2.0, harness=limits)
    assert report.passed == passed
    assert passed or any("gold is not full on 6 tasks" in finding for finding in report.findings)


def test_what_the_environment_names_as_an_attack_is_tried_under_its_name():
    class Knows(Pays):
        def attacks(self, task):
            return {"backdoor": "open sesame", "harmless": "please"}

    opens = Knows(lambda text, gold, prompt: float(text in (gold, "open sesame")))
    report = audited(TASKS, opens, timeout_seconds=2.0)
    assert (report.exploits, report.passed, report.best) == (("backdoor",), False, "backdoor")
    assert report.attacks["backdoor"].part == "part"
    assert report.attacks["harmless"].maximum == 0.0


def test_an_attack_of_the_environment_with_a_name_that_is_taken_is_a_finding():
    class Takes(Pays):
        def attacks(self, task):
            return {"empty": "x"}

    report = audited(TASKS, Takes(exact), timeout_seconds=2.0)
    assert report.findings[0].startswith(
        "attacks failed on 6 of 6 tasks, for example t1: ValueError: 'empty' is the name"
    )
    assert not report.passed


def test_a_slow_reward_is_attacked_on_fewer_tasks_and_the_report_says_so():
    def slow(text, gold, prompt):
        time.sleep(0.002)
        return exact(text, gold, prompt)

    # One task has about 50 attempts of 2 ms, 0.1 s: of twelve tasks 0.3 s leave room for one to three.
    tasks = [make_task(f"t{n}", f"{n}?", str(n * 7)) for n in range(1, 13)]
    report = audit(slow, tasks, seconds=0.3)
    assert 1 <= report.attacked <= report.num_tasks < 12
    assert report.findings[-1].endswith(f"so that {report.num_tasks} of 12 tasks were tried in 0.3 s")
    assert report.passed


def test_accepted_exploits_pass_and_names_without_a_finding_are_told():
    pays = lambda text, gold, prompt: float(text in (gold, ""))  # noqa: E731
    assert audit(pays).exploits == ("empty",)
    report = audit(pays, accept_exploits=["empty", "echo"])
    assert (report.passed, report.accepted, report.exploits) == (True, ("empty",), ())
    assert report.findings[0].startswith("accepted: empty earns as much as gold on 6 tasks")
    assert report.findings[-1] == "echo is accepted, and nothing was found of that name"
    near = audit(pays, accept_exploits=["emty"])
    assert not near.passed
    assert near.findings[-1] == "emty is accepted, and nothing was found of that name"


@pytest.mark.slow
def test_an_attack_that_would_be_paid_more_than_full_fails_and_one_that_breaks_the_reward_is_a_note():
    def pays(text, gold, prompt):
        if text == ":":
            return 2.0
        if text == "Thought process:":
            raise ValueError("no number")
        return float(text == gold)

    report = audit(pays)
    assert report.exploits == ("colon",)
    (note,) = [finding for finding in report.findings if finding.startswith("thought_process could not be scored")]
    assert "ValueError: no number" in note
    assert note.endswith(
        "; what to do: let the reward give such attempts the lowest score: one that makes it fail leaves its group, "
        "and is not told from the others there"
    )
    assert audit(pays, accept_exploits=["colon"]).passed


def test_a_case_that_does_not_hold_fails_the_audit():
    def of_case(at_least):
        case = {"attempt": "4", "task": "t2", "at_least": at_least, "reason": "It is right."}
        spec = {"criteria": {"right": {"says": "It is right.", "grader": {"type": "exact"}}}, "cases": [case]}
        environment = load_environment(PLAIN, {SPECIFICATION: json.dumps(spec)})
        return audited(TASKS, environment, weights={"right": 2.0}, timeout_seconds=2.0)

    assert of_case(2.0).passed
    report = of_case(2.5)
    assert (report.passed, report.exploits) == (False, ())
    assert report.findings == ("case 1 earns 2, not at least 2.5 (It is right.)",)
