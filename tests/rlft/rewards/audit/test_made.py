"""Made-up answers: another one in the same form, and golds that are too alike to be wrong at other tasks."""

import pytest

import rlft
from rlft.environments.contract.base import BaseEnv
from rlft.harness.scripted import as_script
from rlft.messages import make_call
from rlft.rewards.audit.attacks.base import Known, Pool, other_gold
from rlft.rewards.audit.attacks.texts import are_near, made_answer, position_of, text_of
from tests.rlft.attempts import audited, make_task


@pytest.mark.parametrize(
    ("answer", "made"),
    [
        ("1950", "5850"),  # three times as large has four digits, too
        ("91", "30"),  # 273 has three digits, a third rounded has two
        ("5", "2"),
        ("0", "7"),  # no multiple of 0 is another number
        ("20.25 EUR", "60.75 EUR"),
        ("1,200 km", "3,600 km"),
        ("2014-05-03", "2021-05-03"),
        ("2016-02-29", "2044-02-29"),  # seven years later there is no such day
        ("3 May 2014", "3 May 2021"),
        ("Lima", "Mone"),  # each letter is the next vowel or consonant
        ("A-117", "E-228"),
        ('{"n": 4, "s": "ab", "t": true}', '{"n": 12, "s": "ec", "t": true}'),
        ("?!", None),
        ("true false", "vsai gemti"),
    ],
)
def test_a_made_up_answer_has_the_form_of_gold(answer, made):
    assert made_answer(answer) == made


def test_days_of_one_month_are_near():
    assert are_near("2014-05-01", "1 June 2014")  # 31 days
    assert not are_near("2014-05-01", "2014-06-02")
    assert not are_near("2014-05-01", "Lima")
    assert position_of("2014-05-04") - position_of("2014-05-01") == 3
    assert position_of("Lima") is None


class Pays(BaseEnv):
    """Pays what a function of (text, gold) says."""

    def __init__(self, pay):
        self.pay = pay

    def compute_reward(self, completion, ground_truth):
        return {"part": float(self.pay(completion.text.strip(), ground_truth))}


def audit(environment, tasks):
    return audited(tasks, environment, timeout_seconds=2.0)


YEARS = [make_task(f"t{n}", f"When was film {n} made?", str(1950 + 7 * n)) for n in range(10)]


def test_a_reward_that_reads_the_form_of_alike_golds_is_caught():
    report = audit(Pays(lambda text, gold: text.isdigit() and len(text) == 4), YEARS)
    # 1950 to 2013 differ by less than a tenth; a made-up year and the farthest one are paid.
    assert report.exploits[:2] == ("made_answer", "farthest_gold")
    assert report.attacks["other_gold"].count == 0


def test_golds_that_are_too_alike_are_said():
    report = audit(Pays(lambda text, gold: text == gold), YEARS)
    assert report.passed
    (finding,) = report.findings
    assert finding.startswith("no gold is a wrong answer at another task: ")


def test_a_tolerance_within_alike_days_is_honest():
    days = [make_task(f"t{n}", f"When was letter {n} sent?", f"2014-05-{1 + 3 * n:02}") for n in range(10)]

    def within_five(text, gold):
        place = position_of(text)
        return place is not None and abs(place - position_of(gold)) <= 5

    report = audit(Pays(within_five), days)
    assert report.passed, report.text()
    assert report.attacks["farthest_gold"].maximum == 0.0  # it is 15 days away or more


def known(golds):
    tasks = [make_task(f"t{n}", f"Question {n}?", gold) for n, gold in enumerate(golds)]
    scripts = {task.id: as_script(gold) for task, gold in zip(tasks, golds, strict=True)}
    pool = Pool.of(scripts, tasks)
    return Known(tasks[0], scripts["t0"], other_gold(tasks[0], tasks, scripts, pool, 0), pool)


def test_the_same_items_in_another_order_are_no_other_gold():
    sets = known(["Tags: red, blue", "Tags: blue, red", "Tags: red, green"])
    assert text_of(sets.other) == "Tags: red, green"
    assert sets.is_gold(as_script("Tags: Blue, red"))
    ranked = known(["red, blue", "blue, red"])  # the order is all that they differ by
    assert text_of(ranked.other) == "blue, red"
    assert not ranked.is_gold(as_script("blue, red"))
    lists = known(['["a", "b"]', '["b", "a"]', '["b", "c"]'])
    assert text_of(lists.other) == '["b", "c"]'


class Books(BaseEnv):
    """Pays any booking for one of four cities, if something is said; all golds end in the same words."""

    def __init__(self, is_right):
        self.is_right = is_right

    @rlft.tool
    def book(self, city: str, state: dict) -> str:
        """Book a table.

        Args:
            city: Where.
        """
        state["city"] = city
        return "booked"

    def compute_reward(self, completion, ground_truth):
        return {"booked": float(self.is_right(completion.state.get("city"), ground_truth) and bool(completion.text))}

    def gold_completion(self, task):
        asks = {"role": "assistant", "content": "", "tool_calls": [make_call("book", {"city": task.answer}, "1")]}
        return [asks, {"role": "assistant", "content": "It is booked."}]


TABLES = [make_task(f"t{n}", f"Book for {n}.", ("Lima", "Oslo", "Rome", "Bern")[n % 4]) for n in range(8)]


def test_golds_that_end_in_the_same_words_are_told_apart_by_their_calls():
    cities = {task.answer for task in TABLES}
    broken = audit(Books(lambda city, gold: city in cities), TABLES)
    assert {"other_gold", "most_common"} <= set(broken.exploits)
    honest = audit(Books(lambda city, gold: city == gold), TABLES)
    assert honest.passed, honest.text()
    assert honest.findings == ()
    # The most frequent gold is another task's, but right where the same city is asked for: it is no attack there.
    assert honest.attacks["most_common"].count == 6


class Marks(BaseEnv):
    """Has the number of the task and a label handed in, and looks at the label alone."""

    @rlft.tool
    def mark(self, number: int, label: str, state: dict) -> str:
        """Note a label.

        Args:
            number: The task's.
            label: yes or no.
        """
        state["label"] = label
        return "noted"

    def compute_reward(self, completion, ground_truth):
        return {"right": float(completion.state.get("label") == ground_truth)}

    def gold_completion(self, task):
        given = {"number": int(task.id[1:]), "label": task.answer}
        asks = {"role": "assistant", "content": "", "tool_calls": [make_call("mark", given, "1")]}
        return [asks, {"role": "assistant", "content": "Done."}]


@pytest.mark.slow
def test_the_gold_of_a_task_with_the_same_answer_is_no_attack_though_its_calls_differ():
    labels = [make_task(f"t{n}", f"Is {n} odd?", "yes" if n % 2 else "no") for n in range(8)]
    report = audit(Marks(), labels)
    assert report.passed, report.text()
    assert report.attacks["most_common"].count == 4
