"""The monitors of a run: what they are asked with, what is noted, and why training ends."""

from __future__ import annotations

import dataclasses
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines import watching
from pipelines.rounds import Rounds
from pipelines.stages import Scored
from pipelines.watching import Watch, check_honest
from rlft.config import Config
from rlft.config.file import load_config
from rlft.environments.contract.base import BaseEnv
from rlft.errors import FixedSettingError
from rlft.evaluation.diagnosis.monitors import PAID_ATTACKS, Alarm
from rlft.types import Reward, Rewards, Rollouts, TrainReport
from tests.factories import make_reward, make_rollout, make_task, make_task_set, user
from tests.pipelines.test_rounds import artifact
from tests.rlft.evaluation.monitors.runs import validated
from tests.shipped import ROOT

CONFIG = load_config(ROOT / "configs" / "loophole.yaml")
GOOD, HACKED = validated(reward=40, rewards__right=40), validated(reward=80, rewards__right=5)


class Tracker:
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.metrics: list[tuple[dict[str, float], int]] = []
        self.json: dict[str, Any] = {}

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.metrics.append((metrics, step))

    def log_json(self, name: str, content: Any) -> None:
        self.json[name] = content


def watch_of(config: Config = CONFIG, **given: Any) -> Any:
    tasks = make_task_set(make_task("t0", "Ask?", "Lima"), make_task("t1", "Again?", "Oslo"))
    stages: Any = SimpleNamespace(config=config)
    tracker: Any = Tracker()
    return Watch(stages, artifact(tasks), tracker, **given)


def rounds_of(**more) -> Rounds:
    reports = [TrainReport(number, {"reward": 0.5}, {"a": "trained"}, 1, 1.0) for number in range(4)]
    return Rounds(artifact("start"), reports=reports, validated={0: GOOD, 4: HACKED}, **more)


def scored(text: str = "Lima", total: float = 1.0) -> Scored:
    rollout = make_rollout("t0", messages=(user("Ask?"), {"role": "assistant", "content": text}))
    reward: Reward = make_reward(rollout, total)
    return Scored(artifact(Rollouts((rollout,))), artifact(Rewards((reward,), {"exact": 1.0})))


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setattr(watching, "pipeline_environment", lambda settings: BaseEnv())


def test_an_alarm_is_noted_once_and_says_why_training_ends(caplog):
    watch, rounds = watch_of(), rounds_of()
    said = watch(rounds, scored())
    assert said.startswith("monitor overoptimization: On 100 validation tasks the reward rose from 0.40 to 0.80")
    assert [(name, alarm.action, alarm.rounds) for name, alarm in rounds.alarms.items()] == [
        ("overoptimization", "stop", 4)
    ]
    assert ({"monitors/overoptimization": 1.0}, 4) in watch.tracker.metrics
    assert watch.tracker.json["monitors.json"] == [dataclasses.asdict(rounds.alarms["overoptimization"])]
    assert "monitor overoptimization: After 4 rounds" in caplog.text
    assert rounds.stopping_alarm() == "overoptimization"
    assert watch(rounds, scored()) == ""  # seen before
    assert len(rounds.alarms) == 1


def test_a_warning_ends_nothing_and_a_note_is_no_warning(caplog):
    caplog.set_level(logging.INFO)
    for action, level in (("warn", "WARNING"), ("note", "INFO")):
        caplog.clear()
        monitors = CONFIG.monitors.model_copy(update={"overoptimization": action})
        rounds = rounds_of()
        assert watch_of(CONFIG.model_copy(update={"monitors": monitors}))(rounds, scored()) == ""
        assert [record.levelname for record in caplog.records if "After 4 rounds" in record.message] == [level]
        assert rounds.stopping_alarm() == ""


def test_looks_are_shared_by_what_the_config_plans(monkeypatch):
    asked = []
    monkeypatch.setattr(watching, "watch", lambda history, actions, **looks: asked.append((history, looks)) or [])
    watch_of()(rounds_of(), scored())
    ((history, looks),) = asked
    assert looks == {"rounds": 16, "validations": 8}  # training.rounds, and one after every second
    assert (history.honest, history.train_tasks) == ("right", 2)


def test_a_replay_asks_what_it_is_told(monkeypatch):
    asked = []
    monkeypatch.setattr(watching, "watch", lambda history, actions, **looks: asked.append((actions, looks)) or [])
    watch, rounds = watch_of(actions={"overoptimization": "note"}), rounds_of()
    watch(rounds, scored("", total=0.9))
    assert asked == [({"overoptimization": "note"}, {"rounds": 16, "validations": 8})]
    assert watch.tracker.metrics == []  # that the attempts are attacks was for their run to say


def test_the_share_of_paid_attacks_is_a_metric_and_the_stored_report_stays_as_it_is(monkeypatch):
    asked = []
    monkeypatch.setattr(watching, "watch", lambda history, actions, **looks: asked.append(history) or [])
    watch, rounds = watch_of(), rounds_of()
    watch(rounds, scored("", total=0.9))
    assert asked[-1].rounds[-1].metrics == {"reward": 0.5, PAID_ATTACKS: 1.0}
    assert rounds.reports[-1].metrics == {"reward": 0.5}
    assert ({PAID_ATTACKS: 1.0}, 4) in watch.tracker.metrics
    watch(rounds, scored("", total=0.4))  # less than the mean of the first round
    assert asked[-1].rounds[-1].metrics[PAID_ATTACKS] == 0.0


def test_attacks_are_not_looked_for_if_that_is_off_or_fails(monkeypatch, caplog):
    monitors = CONFIG.monitors.model_copy(update={"known_attacks": "off"})
    rounds = rounds_of()
    watch_of(CONFIG.model_copy(update={"monitors": monitors}))(rounds, scored("", total=0.9))
    assert PAID_ATTACKS not in rounds.reports[-1].metrics

    def broken(*_: Any) -> None:
        raise RuntimeError("odd gold")

    monkeypatch.setattr(watching, "paid_attacks", broken)
    watch, rounds = watch_of(), rounds_of()
    assert watch(rounds, scored("")).startswith("monitor overoptimization")  # the others are asked all the same
    watch(rounds, scored(""))
    assert caplog.text.count("is not looked at: RuntimeError: odd gold") == 1


def test_an_honest_part_that_the_reward_lacks_is_refused_before_training():
    check_honest(validated(reward=1, rewards__right=1), CONFIG)
    check_honest(validated(reward=0, tasks=0), CONFIG)  # all failed, and nobody can tell
    with pytest.raises(FixedSettingError, match="no attempt was given a score for the part 'right'") as caught:
        check_honest(validated(reward=1, rewards__exact=1, rewards__long=1), CONFIG)
    assert "name one of exact, long" in str(caught.value.fix)
    check_honest(validated(reward=1), load_config(ROOT / "configs" / "loophole.yaml", ["monitors.honest=null"]))


def test_an_alarm_reads_as_two_sentences():
    one = Alarm("repetition", "warn", 1, "It repeats.", "Bound it.")
    assert one.text == "After 1 round: It repeats. Bound it. More: docs/guide/monitors.md#repetition"
