"""The press-release environment on all open rows: what the label earns, and what is no reading of the text."""

import asyncio
import json
from statistics import fmean

import pytest

from rlft.config import SourceConfig
from rlft.environments.press_release_records import PROVINCES, named_provinces
from rlft.environments.press_releases import CONSTANT, MAIN_FIELDS, PressReleases
from rlft.tasks.rows import make_task
from rlft.tasks.sources import RawRow, read_rows
from rlft.types import Trajectory
from tests.rlft.attempts import audited
from tests.rlft.environments.playing import calls, parts_of, says, share_of

pytestmark = pytest.mark.slow  # every test scores all rows
WITH_TOOLS, AS_TEXT = PressReleases(), PressReleases(tools=False)
CONSTANT_ANSWER = CONSTANT.model_dump()


@pytest.fixture(scope="module")
def tasks(shared_data):
    path = str(shared_data / "isaf_press_releases" / "incidents.jsonl")
    source = SourceConfig(source="jsonl", path=path, prompt="text", answer="gold_norm", id="id", group="group")
    rows = [row for row in read_rows(source) if isinstance(row, RawRow)]
    made = [make_task(row, source, environment="press_releases") for row in rows]
    assert len(made) == 546
    return made


def score(task, extraction):
    completion = Trajectory([calls(("extract_data", extraction))], task=task)  # the tools would change nothing
    parts = asyncio.run(WITH_TOOLS.compute_reward(completion, task.answer))
    return share_of(WITH_TOOLS, parts), parts


def mean_share(tasks, extraction):
    return fmean(score(task, extraction)[0] for task in tasks)


@pytest.mark.parametrize("environment", [WITH_TOOLS, AS_TEXT], ids=["tools", "text"])
def test_gold_is_full_on_every_row_and_again(environment, tasks):
    for task in tasks:
        gold = environment.gold_completion(task)
        parts = parts_of(environment, task, gold)
        assert share_of(environment, parts) == pytest.approx(1.0), task.id
        assert parts["extracted_right"] == 1.0
        again = Trajectory([says(gold)] if isinstance(gold, str) else gold, task=task)
        assert asyncio.run(environment.compute_reward(again, task.answer)) == parts


@pytest.mark.parametrize("environment", [WITH_TOOLS, AS_TEXT], ids=["tools", "text"])
def test_silence_and_the_text_itself_are_nothing_on_every_row(environment, tasks):
    for task in tasks:
        for said in ("", _text(task)):
            completion = Trajectory([says(said)], task=task)
            parts = asyncio.run(environment.compute_reward(completion, task.answer))
            assert set(parts.values()) <= {0.0, None}, task.id


def test_only_the_label_is_full(tasks):
    for task, other in zip(tasks, [*tasks[1:], tasks[0]], strict=True):
        assert score(task, CONSTANT_ANSWER)[0] < 1 - 1e-3, task.id
        if task.answer != other.answer:
            assert score(task, other.answer)[0] < 1 - 1e-3, task.id


def test_a_constant_answer_has_half_of_the_main_fields(tasks):
    # counted in the data: 375 detentions + 102 helmand + 298 taliban + 372 without killed + 181 with 3 captured,
    # over 5 fields of 546 rows = 0.4864
    gold_lift = fmean(score(task, task.answer)[1]["lift"] for task in tasks)
    assert 1 - gold_lift == pytest.approx((375 + 102 + 298 + 372 + 181) / (5 * 546))
    parts = [score(task, CONSTANT_ANSWER)[1] for task in tasks]
    assert {part["lift"] for part in parts} == {0.0}
    exact = [[part[name] == 1.0 for name in MAIN_FIELDS] for part in parts]
    assert fmean(map(fmean, exact)) == pytest.approx(0.4864, abs=1e-4)
    assert mean_share(tasks, CONSTANT_ANSWER) == pytest.approx(0.477, abs=1e-3)


def test_what_is_no_reading_earns_no_more_than_the_constant_answer(tasks):
    constant = mean_share(tasks, CONSTANT_ANSWER)
    unknown = {"event_type": [], "province": [], "target_group": [], "min_captured": 0, "captureq": False}
    assert mean_share(tasks, CONSTANT_ANSWER | unknown | {"killcaptureraid": False}) < 0.26
    assert mean_share(tasks, CONSTANT_ANSWER | {"province": list(PROVINCES)}) < constant
    assert mean_share(tasks, CONSTANT_ANSWER | {"province": ["helmand", "kandahar"]}) < constant
    assert mean_share(tasks, CONSTANT_ANSWER | {"target_group": ["taliban", "haqqani"]}) < constant


def test_the_label_names_what_the_text_names_but_for_seven_rows(tasks):
    # 4 name none ("the same province"), 2 name Paktiya where the label is paktika, 1 names Kabul alone
    unnamed = [task.id for task in tasks if not set(task.answer["province"]) <= set(named_provinces(_text(task)))]
    assert len(unnamed) == 7
    flagged = {task.id for task in tasks if "province_not_in_text" in task.info["flags"]}
    assert len(flagged - set(unnamed)) == 2  # the flags do not know Konar


def test_the_audit_passes(tasks):
    report = audited(tasks, AS_TEXT, weights=AS_TEXT.reward_weights(), timeout_seconds=5.0, max_tasks=60)
    assert report.passed, report.text()
    assert report.attacks["most_common"].mean < 7.6 * 0.6


def test_line_separators_stay_in_the_text(tasks):
    assert sum(_text(task).count("\u2028") for task in tasks) > 2000
    assert json.loads(AS_TEXT.gold_completion(tasks[0])) == tasks[0].answer


def _text(task):
    return task.prompt[-1]["content"]
