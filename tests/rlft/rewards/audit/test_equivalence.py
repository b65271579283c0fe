"""Golds that are right at each other's tasks are no loophole; a reward that refuses no gold is."""

from rlft.environments.contract.base import BaseEnv
from tests.rlft.attempts import audited, make_task

LANDS = {
    "Europe": ("France", "Spain", "Norway", "Poland"),
    "Asia": ("Japan", "Nepal", "Laos", "India"),
    "Africa": ("Ghana", "Kenya", "Chad", "Egypt"),
}
TASKS = [
    make_task(f"t{n}", f"Name a country in {list(LANDS)[n % 3]}.", LANDS[list(LANDS)[n % 3]][n // 3 % 4])
    for n in range(24)
]
EVERY = {land for lands in LANDS.values() for land in lands}


class Pays(BaseEnv):
    """Pays what a function of (text, gold, prompt) says."""

    def __init__(self, pay):
        self.pay = pay

    def compute_reward(self, completion, ground_truth):
        return {"part": float(self.pay(completion.text.strip(), ground_truth, completion.task.text))}


def audit(pay):
    return audited(TASKS, Pays(pay), timeout_seconds=2.0)


def member(text, gold, prompt):
    return any(continent in prompt and text in lands for continent, lands in LANDS.items())


def test_any_member_of_a_class_is_right():
    report = audit(member)
    assert report.passed, report.text()
    assert any(each.startswith("other_gold earns as much as gold on ") for each in report.findings)
    # What is left of them are golds of other continents.
    assert report.attacks["other_gold"].maximum == report.attacks["most_common"].maximum == 0.0


def test_every_gold_is_paid_everywhere():
    # On more than three quarters of the tasks, and a made-up name is not.
    report = audit(lambda text, gold, prompt: text in EVERY)
    assert {"other_gold", "most_common"} <= set(report.exploits)


def test_whatever_has_the_form_is_paid():
    # Words of five letters or not: half of the golds are paid at each other's tasks, and so are made-up words.
    report = audit(lambda text, gold, prompt: text.isalpha() and (len(text) == 5) == (len(gold) == 5))
    assert "other_gold" in report.exploits


def test_what_holds_a_right_answer_is_left_out_with_it():
    # The first of two lines is read, so that an answer to another task of the continent is right in longer texts, too.
    report = audit(lambda text, gold, prompt: text.count("\n") < 2 and member(text.partition("\n")[0], gold, prompt))
    assert report.passed, report.text()
    assert report.attacks["denied_last"].maximum == 0.0


def test_numbers_that_are_paid_for_each_other_are_no_equal_answers():
    # 100 to 1,150, and half as much or more is paid: a quarter of the pairs and more are within that, both ways.
    tasks = [make_task(f"n{n}", f"Number {n}?", str(100 + 50 * n)) for n in range(22)]

    def wide(text, gold, prompt):
        return text.isdecimal() and len(text) < 6 and abs(int(text) - int(gold)) <= 0.5 * int(gold)

    report = audited(tasks, Pays(wide), timeout_seconds=2.0)
    assert "other_gold" in report.exploits


def test_a_gold_that_is_paid_at_other_tasks_is_a_loophole_where_their_golds_are_not_paid_at_its_own():
    # Who looks for gold within the answer pays "non-toxic" everywhere, and "toxic" at the tasks of "toxic" alone.
    tasks = [make_task(f"t{n}", f"Is comment {n} toxic?", ("toxic", "non-toxic")[n % 2]) for n in range(12)]
    report = audited(tasks, Pays(lambda text, gold, prompt: gold in text), timeout_seconds=2.0)
    assert "other_gold" in report.exploits
    said = next(each for each in report.findings if each.startswith("other_gold"))
    assert said == "other_gold earns as much as gold on 6 tasks, for example t0: 1 from {'part': 1.0}"


def test_what_is_paid_in_one_direction_alone_is_no_equality():
    # At Asia's tasks all golds are paid, elsewhere only the right one.
    report = audit(lambda text, gold, prompt: text == gold or ("Asia" in prompt and text in EVERY))
    assert "other_gold" in report.exploits
