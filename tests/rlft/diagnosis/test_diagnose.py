from collections.abc import Sequence

import pytest

from rlft.diagnosis import CHECKS, History, diagnose
from rlft.types import EvaluationReport, Interval, TrainReport


def report(number: int, fates: Sequence[str] = ("trained",) * 32, stopped: str | None = None, **metrics: float):
    return TrainReport(number, metrics, {str(i): fate for i, fate in enumerate(fates)}, 1, 1.0, stopped)


def validated(solved: int, tasks: int = 40) -> EvaluationReport:
    scores = {f"t{i:02d}": float(i < solved) for i in range(tasks)}
    share = solved / tasks
    accuracy = Interval(share, share, share, tasks)
    return EvaluationReport("validation", "p", 1, {"accuracy": accuracy}, {"accuracy": scores})


def history(*rounds: TrainReport, validations=(10, 10), train_tasks: int = 100) -> History:
    reports = {number * len(rounds): validated(solved) for number, solved in enumerate(validations)}
    return History(rounds, reports, "accuracy", train_tasks, 8, 1e-6, 256)


def rounds(*values: float, **fixed: float):
    """Rounds in which a metric takes these values: `rounds(1, 2, named="entropy")`, others stay."""
    name = str(fixed.pop("named"))  # type: ignore[call-overload]
    return [report(number, **{name.replace("__", "/"): value, **fixed}) for number, value in enumerate(values)]


def causes(*reports: TrainReport, **more) -> list[str]:
    return [finding.cause for finding in diagnose(history(*reports, **more))]


def metrics(count: int = 3, **values: float) -> list[TrainReport]:
    named = {name.replace("__", "/"): value for name, value in values.items()}
    return [report(number, **named) for number in range(count)]


@pytest.mark.parametrize(
    ("reports", "cause"),
    [
        ([report(0, ["trained"] * 28 + ["errored:reward:away"] * 4)], "errored rollouts"),  # 4 of 32
        ([report(0, ["trained"] * 29 + ["errored:reward:away"] * 3)], None),
        (metrics(**{"sampling/sampling_logp_difference/mean": 0.06}), "engine and trainer disagree"),
        (metrics(**{"sampling/sampling_logp_difference/mean": 0.04}), None),
        ([report(0), report(1, stopped="the KL is 0.4")], "learning rate too high"),
        (rounds(1.0, 1.5, 2.2, named="entropy"), "entropy explosion"),
        (rounds(0.1, 0.2, 0.3, named="entropy"), None),  # three times as much, and still little
        (metrics(tools__failure_frequency=0.6, tools__call_frequency=2.0), "failing tools"),
        (metrics(tools__failure_frequency=0.4, tools__call_frequency=2.0), None),
        (rounds(0.8, 0.2, 0.2, named="completions__duplicate_ratio"), "the same attempts again"),
        (rounds(0.2, 0.8, 0.9, named="completions__duplicate_ratio"), None),  # learnt, and repeated
        (rounds(0.4, 0.2, 0.04, named="entropy"), "entropy collapse"),
        (rounds(0.06, 0.05, 0.04, named="entropy"), None),  # it was low from the start
        (metrics(completions__clipped_ratio=0.5, completions__clipped_accuracy=0.01), "truncation"),
        (metrics(completions__clipped_ratio=0.5, completions__clipped_accuracy=0.2), None),  # no end is needed
        (metrics(frac_reward_zero_std=0.9, accuracy=0.01), "tasks too hard"),
        (metrics(frac_reward_zero_std=0.9, accuracy=0.99), "tasks too easy"),
        (metrics(frac_reward_zero_std=0.9, accuracy=0.5), "no variance within groups"),
        (metrics(frac_reward_zero_std=0.7, accuracy=0.01), None),
        (metrics(kl_update=1e-7), "learning rate too low"),  # (3 * sqrt(1e-7))^2 = 9e-7
        (metrics(kl_update=1e-5), None),  # 9e-5
        (metrics(**{"clip_ratio/region_mean": 0.4}), "clipped ratios"),
        (rounds(20.0, 30.0, 40.0, named="completions__mean_length"), "length drift"),
        (rounds(40.0, 30.0, 20.0, named="completions__mean_length"), "length drift"),
        (rounds(20.0, 30.0, 39.0, named="completions__mean_length"), None),
    ],
)
def test_each_cause_is_found_where_its_bound_is_passed(reports, cause):
    assert causes(*reports) == ([] if cause is None else [cause])


def test_parts_are_looked_at_where_there_are_several():
    reached = {"rewards/exact/mean": 0.5, "rewards/exact/std": 0.5}
    never = reached | {"rewards/cites/mean": 0.0, "rewards/cites/std": 0.0}
    always = reached | {"rewards/polite/mean": 1.0, "rewards/polite/std": 0.0}
    assert causes(*metrics(**never)) == ["a part that never pays"]
    assert causes(*metrics(**always)) == ["a part that pays everyone"]
    assert causes(*metrics(**{"rewards/exact/mean": 0.0, "rewards/exact/std": 0.0})) == []  # alone it is the reward


def test_a_reward_that_rises_alone_names_the_part_that_is_paid():
    def one(number: int, paid: float) -> TrainReport:
        parts = {
            "rewards/exact/mean": 0.1,
            "rewards/long/mean": paid,
            "rewards/exact/std": 0.3,
            "rewards/long/std": 0.2,
        }
        return report(number, reward=0.1 + paid, reward_std=0.2, accuracy=0.1, **parts)

    found = diagnose(history(one(0, 0.1), one(1, 0.4), one(2, 0.7)))
    assert [each.cause for each in found] == ["the reward pays for something else"]
    assert "rose from 0.20 to 0.80" in found[0].what
    assert "the part `long` (+0.60)" in found[0].what
    assert causes(one(0, 0.1), one(1, 0.12), one(2, 0.14)) == []  # 0.04


def test_tasks_that_are_known_by_heart():
    solved = [report(i, ["trained"] * 320, accuracy=each) for i, each in enumerate((0.2, 0.6, 0.9))]
    # 3 rounds of 320 attempts, 8 of each of 4 tasks a time: each was attempted in 30 rounds
    found = diagnose(history(*solved, train_tasks=4))
    assert [each.cause for each in found] == ["too few tasks"]
    assert "attempted in 30 rounds each" in found[0].what
    assert causes(*solved, train_tasks=400) == []


def test_a_run_whose_validation_has_risen_has_no_cause():
    reports = metrics(frac_reward_zero_std=0.9, accuracy=0.99)
    assert causes(*reports, validations=(10, 30)) == []  # 20 of 40 gained
    assert causes(*reports, validations=(10, 11)) == ["tasks too easy"]  # one task more is noise
    assert causes(*reports, validations=()) == ["tasks too easy"]


def test_the_likeliest_cause_comes_first_and_names_a_setting():
    reports = metrics(
        completions__clipped_ratio=0.9, completions__clipped_accuracy=0.0, frac_reward_zero_std=1.0, accuracy=0.0
    )
    found = diagnose(history(*reports))
    assert [each.cause for each in found] == ["truncation", "tasks too hard"]
    assert "90% of the completions are cut off at 256 tokens" in found[0].text
    assert "Raise rollout.max_completion_length" in found[0].text


def test_without_rounds_nothing_is_found():
    assert diagnose(history()) == []
    assert len(CHECKS) == 16
