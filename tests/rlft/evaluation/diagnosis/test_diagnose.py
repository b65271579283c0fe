import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rlft.evaluation.diagnosis.history import Finding, History
from rlft.evaluation.diagnosis.monitors import AT_THE_END, diagnose
from rlft.evaluation.statistics import mean_interval
from rlft.types import EvaluationReport, TrainReport


def report(number: int, fates: Sequence[str] = ("trained",) * 320, stopped: str | None = None, **metrics: float):
    return TrainReport(number, metrics, {str(i): fate for i, fate in enumerate(fates)}, 1, 1.0, stopped)


def validated(solved: int, tasks: int = 40, **more) -> EvaluationReport:
    scores = {f"t{i:02d}": float(i < solved) for i in range(tasks)}
    return EvaluationReport("validation", "p", 1, {"accuracy": mean_interval(scores)}, {"accuracy": scores}, **more)


def history(*rounds: TrainReport, validations=(10, 10), train_tasks: int = 100, **more) -> History:
    reports = {
        number: each if isinstance(each, EvaluationReport) else validated(each)
        for number, each in enumerate(validations)
    }
    return History(rounds, reports, "accuracy", train_tasks, 8, 1e-6, 256, **more)


def rounds(*values: float, **fixed: float):
    """Rounds in which a metric takes these values: `rounds(1, 2, named="entropy")`, others stay."""
    name = str(fixed.pop("named"))  # type: ignore[call-overload]
    fixed = {key.replace("__", "/"): value for key, value in fixed.items()}
    return [report(number, **{name.replace("__", "/"): value, **fixed}) for number, value in enumerate(values)]


def causes(*reports: TrainReport, **more) -> list[str]:
    return [finding.cause for finding in diagnose(history(*reports, **more))]


def metrics(count: int = 3, **values: float) -> list[TrainReport]:
    named = {name.replace("__", "/"): value for name, value in values.items()}
    return [report(number, **named) for number in range(count)]


SAMPLING = "sampling__sampling_logp_difference"


# Each round has 40 groups of 8 attempts; a share that is the same in three rounds is that of 120 groups.
@pytest.mark.parametrize(
    ("reports", "cause"),
    [
        # Of 320 at a share of 0.1, 48 and more come about in 0.3 % of runs, 44 and more in 1.9 %.
        ([report(0, ["trained"] * 272 + ["errored:reward:away"] * 48)], "errored rollouts"),
        ([report(0, ["trained"] * 276 + ["errored:reward:away"] * 44)], None),
        ([report(0, ["trained"] * 7 + ["errored:reward:away"])], None),  # one of eight
        (metrics(**{"sampling/sampling_logp_difference/mean": 0.06}), "engine and trainer disagree"),
        (metrics(**{"sampling/sampling_logp_difference/mean": 0.04}), None),
        (rounds(0.01, 9.0, 0.01, named="sampling__sampling_logp_difference__mean"), None),  # one outlier
        # An earlier policy sampled all rounds but the first: what was learnt since is no fault of the engine.
        (
            [replace(each, age=min(each.round, 1)) for each in rounds(*[0.06] * 3, named=f"{SAMPLING}__mean")],
            None,
        ),
        ([report(0), report(1, stopped="the KL is 0.4")], "learning rate too high"),
        (rounds(0.02, 0.12, 0.3, named="kl_update"), "learning rate too high"),
        (rounds(0.02, 0.08, 0.3, named="kl_update", completions__mean_length=9.0), None),
        (metrics(tools__failure_frequency=0.65, tools__call_frequency=2.0), "failing tools"),
        (metrics(tools__failure_frequency=0.55, tools__call_frequency=2.0), None),
        (
            metrics(rewards__contradiction_ratio=0.35, completions__duplicate_ratio=0.4),
            "a reward that contradicts itself",
        ),
        (metrics(rewards__contradiction_ratio=0.25, completions__duplicate_ratio=0.4), None),
        (metrics(rewards__contradiction_ratio=1.0, completions__duplicate_ratio=0.001), None),  # one repeats, or none
        # At most 7 of 8 attempts repeat another: 0.84 is 96 % of that, in 40 groups.
        (
            rounds(0.84, 0.2, 0.2, named="completions__duplicate_ratio", frac_reward_zero_std=0.78),
            "the same attempts again",
        ),
        (rounds(0.84, 0.8, 0.8, named="completions__duplicate_ratio", frac_reward_zero_std=0.3), None),  # two labels
        (rounds(0.2, 0.84, 0.84, named="completions__duplicate_ratio", frac_reward_zero_std=0.78), None),  # learnt
        (rounds(0.5, 0.4, 0.2, 0.1, 0.04, 0.03, named="entropy"), "entropy collapse"),
        (rounds(0.06, 0.05, 0.04, 0.03, 0.02, 0.01, named="entropy"), None),  # it was low from the start
        (metrics(completions__clipped_ratio=0.55, completions__clipped_accuracy=0.01, accuracy=0.2), "truncation"),
        (metrics(completions__clipped_ratio=0.45, completions__clipped_accuracy=0.01, accuracy=0.2), None),
        (metrics(completions__clipped_ratio=0.55, completions__clipped_accuracy=0.2), None),  # no end is needed
        (
            metrics(completions__clipped_ratio=0.55, completions__clipped_accuracy=0.0, accuracy=0.001),
            None,
        ),  # nor helps
        (metrics(completions__unanswered_ratio=0.65), "answers in the wrong form"),
        (metrics(completions__unanswered_ratio=0.55), None),
        (metrics(frac_reward_zero_std=0.9, accuracy=0.01), "tasks too hard"),
        (metrics(frac_reward_zero_std=0.9, accuracy=0.99), "tasks too easy"),
        (metrics(frac_reward_zero_std=0.9, accuracy=0.5), "no variance within groups"),
        (metrics(frac_reward_zero_std=0.85, accuracy=0.01), None),
        # (3 * sqrt(1e-7))^2 = 9e-7 nats a token, of 100 tokens: sqrt(9e-5 / 2) = 0.7 points
        (metrics(kl_update=1e-7, completions__mean_length=100.0), "learning rate too low"),
        (metrics(kl_update=1e-6, completions__mean_length=100.0), None),  # 2.1 points
        (rounds(20.0, 21.0, 30.0, 31.0, 40.0, 45.0, named="completions__mean_length"), "length drift"),
        (rounds(45.0, 40.0, 31.0, 30.0, 21.0, 20.0, named="completions__mean_length"), "length drift"),
        (rounds(20.0, 21.0, 30.0, 31.0, 38.0, 39.0, named="completions__mean_length"), None),
        (rounds(20.0, 21.0, 90.0, 8.0, 20.0, 70.0, named="completions__mean_length"), None),
    ],
)
def test_each_cause_is_found_where_its_bound_is_passed(reports, cause):
    assert causes(*reports) == ([] if cause is None else [cause])


def test_parts_are_looked_at_where_there_are_several():
    reached = {"rewards/exact/mean": 0.5, "rewards/exact/std": 0.5}
    never = reached | {"rewards/cites/mean": 0.0, "rewards/cites/std": 0.0}
    assert causes(*metrics(**never)) == ["a part that never pays"]
    assert causes(*metrics(**{"rewards/exact/mean": 0.0, "rewards/exact/std": 0.0})) == []  # alone it is the reward
    assert causes(*metrics(1, **never)) == []  # 40 groups: a part that pays at 7.5 % of the tasks may be missing
    # Twelve tasks in 120 groups are twelve tasks: of a part that pays at 5 % of all tasks they lack it in 54 %.
    assert causes(*metrics(**never), train_tasks=12) == []
    assert causes(*metrics(**never), train_tasks=60) == ["a part that never pays"]


def test_a_reward_that_rises_alone_names_the_part_that_is_paid():
    def one(number: int, paid: float) -> TrainReport:
        parts = {
            "rewards/exact/mean": 0.1,
            "rewards/long/mean": paid,
            "rewards/exact/std": 0.3,
            "rewards/long/std": 0.2,
        }
        return report(number, reward=0.1 + paid, reward_std=0.2, accuracy=0.1, **parts)

    found = diagnose(history(*(one(i, paid) for i, paid in enumerate((0.1, 0.1, 0.3, 0.4, 0.6, 0.8)))))
    assert [each.cause for each in found] == ["the reward pays for something else"]
    assert "rose from 0.20 to 0.80" in found[0].what
    assert "the part `long` (+0.60)" in found[0].what
    assert causes(*(one(i, paid) for i, paid in enumerate((0.1, 0.1, 0.11, 0.12, 0.13, 0.14)))) == []  # 0.035
    # All attempts count as solved, as the loophole earns the full reward: the honest part says that they are not.
    fooled = [
        replace(one(i, paid), metrics=one(i, paid).metrics | {"accuracy": paid})
        for i, paid in enumerate((0.1, 0.1, 0.3, 0.4, 0.6, 0.8))
    ]
    assert causes(*fooled) == []
    [honest] = diagnose(history(*fooled, honest="exact"))
    assert "`exact`, which says what counts, went from 10.0% to 10.0%" in honest.what
    assert causes(*(one(i, paid) for i, paid in enumerate((0.1, 0.1, 0.9, 0.2, 0.9, 0.1)))) == []  # up and down


def test_tasks_that_are_known_by_heart():
    solved = [report(i, accuracy=each) for i, each in enumerate((0.2, 0.2, 0.5, 0.7, 0.9, 0.95))]
    # 6 rounds of 40 groups on 4 tasks
    found = diagnose(history(*solved, train_tasks=4))
    assert [each.cause for each in found] == ["too few tasks"]
    assert "attempted in 60 rounds each" in found[0].what
    assert "from 20.0% to 92.5% in training and by +0.0 points on validation" in found[0].what
    assert causes(*solved, train_tasks=40) == []  # 6 rounds each
    few = [validated(1, 4), validated(1, 4)]
    assert causes(*solved, train_tasks=4, validations=few) == []  # four tasks may have risen as much
    # Drawn by their pass rates, the tasks of one round are not those of another.
    drawn = {"curriculum/expected_pass_rate": 0.5}
    chosen = [report(i, accuracy=each, **drawn) for i, each in enumerate((0.2, 0.2, 0.5, 0.7, 0.9, 0.95))]
    assert causes(*chosen, train_tasks=4) == []
    better = [validated(10, 40), validated(26, 40)]  # risen by 40 points, more than half of 72.5
    assert causes(*solved, train_tasks=4, validations=better) == []


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
    assert found[0].text.endswith("More: docs/guide/diagnosis.md#truncation")


def test_without_rounds_nothing_is_found():
    assert diagnose(history()) == []
    assert len(AT_THE_END) == 18


def test_every_cause_has_its_heading_in_the_guide():
    guide = Path(__file__).parents[4] / "docs" / "guide" / "diagnosis.md"
    headings = {line.removeprefix("### ") for line in guide.read_text().splitlines() if line.startswith("### ")}
    code = (Path(__file__).parents[4] / "rlft" / "evaluation" / "diagnosis" / "causes.py").read_text()
    named = set(re.findall(r'Finding\(\n\s+"([^"\n]+)",\n', code))
    assert len(named) == 20
    assert headings == named
    assert Finding("too few tasks", "", "").link == "docs/guide/diagnosis.md#too-few-tasks"
