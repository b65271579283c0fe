"""Artifacts come back as they were, their hashes ignore clocks, and a full disk is an error that says so."""

from __future__ import annotations

import dataclasses
import errno
import importlib
import json
import math
import pkgutil
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from zenml.materializers.materializer_registry import materializer_registry

import steps
from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from materializers.tables import RewardsMaterializer, RolloutsMaterializer, TaskSetMaterializer
from rlft.engines.chat_endpoint import AskedModel
from rlft.errors import DamagedError, StorageError
from rlft.evaluation.forgetting import TextBits
from rlft.evaluation.promotion import Decision, RegisteredVersion
from rlft.evaluation.searches.constant import ConstantAnswer
from rlft.evaluation.searches.prompts import PromptReport, PromptTrial
from rlft.evaluation.searches.validator import Candidate, ControlReport
from rlft.evaluation.suites import CellMeasures, SplitMeasures
from rlft.files import write_file
from rlft.models import PolicyFolder, load_policy, save_policy
from rlft.models.tokens import PromptCheck
from rlft.rewards.audit.report import AttackScores, AuditReport
from rlft.rewards.rescored import RescoreReport
from rlft.tasks.contamination import ContaminationReport, Overlap
from rlft.tasks.curriculum import Draw, DrawnTask, PassRates
from rlft.training.imitation import SftReport
from rlft.types import Evaluation, EvaluationReport, Interval, Report, Rewards, Rollouts, TaskSet, TrainReport
from tests.factories import make_policy, make_rollout, make_scored, make_task, make_task_set, user

PROMPT = PromptTrial(4, "text", 0.5)
EXAMPLES = {"form": "text", "shown": [{"prompt": [user("q")], "turns": [{"role": "assistant", "content": "a"}]}]}
ROLLOUTS, REWARDS = make_scored({"a": [1.0, None], "b": [0.1 + 0.2, 0.0]})
TASKS = make_task_set(make_task("a", prompt="<b>\u2028"), make_task("b", answer=None, split="gate"))


def at(kind, store, name="artifact"):
    uri = Path(store.path) / name
    uri.mkdir(exist_ok=True)
    return kind(str(uri), store)


@pytest.mark.parametrize("store", ["local_store", "remote_store"])
def test_tables_come_back(store, request):
    store = request.getfixturevalue(store)
    materializer = at(TaskSetMaterializer, store)
    materializer.save(TASKS)
    assert materializer.load(TaskSet) == TASKS
    materializer = at(RewardsMaterializer, store)
    materializer.save(REWARDS)
    assert materializer.load(Rewards) == REWARDS
    materializer = at(RolloutsMaterializer, store)
    materializer.save(ROLLOUTS)
    found = materializer.load(Rollouts)
    assert [r.rollout_id for r in found] == [r.rollout_id for r in ROLLOUTS]
    assert [r.logprobs.tobytes() for r in found] == [r.logprobs.tobytes() for r in ROLLOUTS]
    assert materializer.compute_content_hash(found) == materializer.compute_content_hash(ROLLOUTS)
    assert len(pandas.read_parquet(Path(materializer.uri) / "rollouts.parquet")) == 4


def test_hashes_of_tables(local_store):
    rollouts, rewards = (at(kind, local_store) for kind in (RolloutsMaterializer, RewardsMaterializer))
    slow = Rollouts(tuple(dataclasses.replace(r, seconds=9.0) for r in ROLLOUTS), seconds=9.0)
    assert rollouts.compute_content_hash(slow) == rollouts.compute_content_hash(ROLLOUTS)
    other = dataclasses.replace(ROLLOUTS.rows[0], logprobs=ROLLOUTS.rows[0].logprobs * np.float32(1.0000001))
    assert rollouts.compute_content_hash(Rollouts((other, *ROLLOUTS.rows[1:]))) != rollouts.compute_content_hash(slow)
    slow = Rewards(tuple(dataclasses.replace(r, seconds=9.0) for r in REWARDS), REWARDS.weights, seconds=9.0)
    assert rewards.compute_content_hash(slow) == rewards.compute_content_hash(REWARDS)
    heavier = dataclasses.replace(REWARDS, weights={"exact": 2.0})
    assert rewards.compute_content_hash(heavier) != rewards.compute_content_hash(REWARDS)
    declared = dataclasses.replace(REWARDS, ranges={"reward": (-10.0, 1.0)})  # intervals rest on them
    assert rewards.compute_content_hash(declared) != rewards.compute_content_hash(REWARDS)
    assert at(TaskSetMaterializer, local_store).compute_content_hash(TASKS) == TASKS.fingerprint


def test_what_the_dashboard_shows(local_store):
    materializer = at(TaskSetMaterializer, local_store)
    (path,) = materializer.save_visualizations(TASKS)
    shown = Path(path).read_text()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert materializer.extract_metadata(TASKS) == {"fingerprint": "2 tasks", "tasks": {"gate": 1, "train": 1}}
    for kind, data in ((RolloutsMaterializer, ROLLOUTS), (RewardsMaterializer, REWARDS)):
        assert at(kind, local_store).save_visualizations(data)
        at(kind, local_store).save_visualizations(type(data)((), *([{}] if kind is RewardsMaterializer else [])))
    assert at(RolloutsMaterializer, local_store).extract_metadata(ROLLOUTS)["sampled_tokens"] == 8
    found = at(RewardsMaterializer, local_store).extract_metadata(REWARDS)
    assert (found["rewards"], found["errored"]) == (4, 1)
    assert found["mean_reward"] == pytest.approx(1.3 / 3)


def test_what_a_model_wrote_turns_nothing_round_in_the_dashboard(local_store):
    said = make_rollout(messages=(user("?"), {"role": "assistant", "content": "<i>\u202eright\x1b[2J\ud800"}))
    (path,) = at(RolloutsMaterializer, local_store).save_visualizations(Rollouts((said,)))
    assert "<td>&lt;i&gt;\\u202eright\\x1b[2J\\ud800</td>" in Path(path).read_text()


INTERVAL = Interval(0.5, 0.25, 0.75, 8)
CHECKPOINT = Candidate(1e-3, 8, 0.1 + 0.2)
REPORTS = [
    TrainReport(3, {"kl": 0.1 + 0.2}, {"r": "trained", "s": "filtered:no_variance"}, 2, 1.5, None),
    TrainReport(3, {}, {}, 0, 1.5, "KL 12"),
    SftReport(steps=0, seconds=1.5, loss=math.inf, demonstrations=4),
    SftReport(2, 1.5, 0.1 + 0.2, 4, (1.0, 0.1 + 0.2), (1e-5, 2e-5), (0.5, 0.25)),
    Evaluation({"gate": EvaluationReport("gate", "p", 4, {"reward": INTERVAL}, {"reward": {"t": 1.0}}, 1, 0.5)}, 1.5),
    ConstantAnswer({"gate": EvaluationReport("gate", "c", 1, {}, {}, frequent={"?": 3})}, text="?", tried={"": -2.0}),
    CellMeasures(
        "p",
        {"test": SplitMeasures({"reward": INTERVAL}, {"c": {"\u2028": {"reward": INTERVAL}}}, 2, 8, 4, {"engine": 1})},
        {"flops": 1e9},
        1.5,
    ),
    ControlReport(1e12, 9e11, 1.5, 40, "accuracy", (CHECKPOINT, Candidate(3e-3, 4, None)), CHECKPOINT, (0.5, 0.25)),
    PromptReport(9e9, 4e9, 0.5, "accuracy", (PROMPT, PromptTrial(8, "turns", left_out="long")), PROMPT, EXAMPLES),
    PromptReport(None, None, 0.5, "accuracy", (PROMPT,), PROMPT, None, prompt_tokens=120, completion_tokens=4),
    AskedModel("http://127.0.0.1:8000/v1", "small", "small-1", "env:KEY", 9.5, 2, 64),
    Decision(True, ("better", "not worse"), {"base": INTERVAL}, 3, 20),
    RegisteredVersion("n", "1", None, ("champion", "candidate"), "pending", "why"),
    PromptCheck(512, ("t1", "t2")),
    ContaminationReport({"test": ("a", "b")}, {"a": Overlap("exact", "train", "t", "\u2028")}, {"train": 3}, 2),
    TextBits({"code": (0.5, 0.1 + 0.2)}, {"german": "the tokenizer has no token for '\u00e4'"}, "p", 1.5),
    Draw(3, "pass_rate", (DrawnTask("t", "learnability", 0.1 + 0.2, 2.5),), (DrawnTask("u", "new"),), 1),
    PassRates({"t": (0.1 + 0.2, 1.0, 3)}, ("u",)),
    RescoreReport(
        4,
        {"reward": (0.5, 4)},
        {"reward": (0.1 + 0.2, 3)},
        0,
        1,
        1,
        {"kept": 2, "tied": 1},
        1,
        0,
        2,
    ),
    AuditReport({"gold": AttackScores(1.0, 1.0, 1.0, 4, 1.0)}, ("fine \u2028",), True, 4),
]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: type(report).__name__)
def test_reports_come_back(report, local_store):
    materializer = at(ReportMaterializer, local_store)
    materializer.save(report)
    found = materializer.load(type(report))
    assert found == report
    assert type(found) is type(report)
    assert materializer.compute_content_hash(found) == materializer.compute_content_hash(report)
    if hasattr(report, "seconds"):
        slow = dataclasses.replace(report, seconds=9.0)
        assert materializer.compute_content_hash(slow) == materializer.compute_content_hash(report)
    assert materializer.save_visualizations(report)


def test_hashes_of_reports(local_store):
    materializer = at(ReportMaterializer, local_store)
    assert len({materializer.compute_content_hash(report) for report in REPORTS}) == len(REPORTS)


def test_every_report_has_its_case_above():
    for module in pkgutil.iter_modules(steps.__path__):  # whichever tests a worker ran before
        importlib.import_module(f"steps.{module.name}")
    kinds = Report.__subclasses__()
    kinds += [kind for each in kinds for kind in each.__subclasses__()]
    assert {type(report).__name__ for report in REPORTS} == {kind.__name__ for kind in kinds}


@pytest.mark.parametrize("store", ["local_store", "remote_store"])
def test_policies_come_back(store, request, tmp_path):
    store = request.getfixturevalue(store)
    policy = make_policy()
    saved = save_policy(policy, tmp_path / "scratch", stage="base")
    materializer = at(PolicyMaterializer, store)
    materializer.save(saved)
    files = {path.relative_to(saved.path): path.read_bytes() for path in saved.path.rglob("*") if path.is_file()}
    found = materializer.load(PolicyFolder)
    assert {p.relative_to(found.path): p.read_bytes() for p in found.path.rglob("*") if p.is_file()} == files
    cold = load_policy(found, torch.device("cpu"))
    assert cold.metadata == policy.metadata
    assert materializer.compute_content_hash(found) == policy.metadata.content_hash
    assert materializer.extract_metadata(found)["stage"] == "base"
    # The scratch folder goes when the next step begins; the artifact stays.
    for path in sorted(saved.path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert found.has_weights
    assert (found.path.is_relative_to(Path(store.path))) == bool(store.config.is_local)


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


class FullFile:
    """A file that opens and takes nothing."""

    def __init__(self, *_):
        self.closed = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True

    def write(self, _):
        full()

    def flush(self):
        """Nothing is in it."""


class FullStore:
    """An artifact store without room, which shows when a file is opened, or when it is written."""

    path = ""

    def __init__(self, place):
        self.place = place

    def makedirs(self, _):
        """Folders take no room."""

    def open(self, *_):
        return full() if self.place == "open" else FullFile()


@pytest.mark.parametrize("place", ["open", "write"])
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (TaskSetMaterializer, TASKS),
        (RolloutsMaterializer, ROLLOUTS),
        (RewardsMaterializer, REWARDS),
        (ReportMaterializer, REPORTS[0]),
    ],
)
def test_a_full_disk_says_so(kind, data, place, tmp_path):
    materializer = kind(str(tmp_path), FullStore(place))
    with pytest.raises(StorageError, match="No space left") as caught:
        materializer.save(data)
    assert materializer.uri in caught.value.where
    assert "make room" in caught.value.fix


@pytest.mark.parametrize("store", ["local_store", "remote_store"])
def test_a_full_disk_takes_no_policy(store, request, tmp_path, monkeypatch):
    store = request.getfixturevalue(store)
    saved = save_policy(make_policy(), tmp_path / "scratch")
    monkeypatch.setattr("rlft.files.os.link", full)
    monkeypatch.setattr("rlft.files.shutil.copyfile", full)
    monkeypatch.setattr("materializers.policy.fileio.copy", full)
    with pytest.raises(StorageError, match="No space left") as caught:
        at(PolicyMaterializer, store).save(saved)
    assert "make room" in caught.value.fix


def test_where_links_are_not_possible_files_are_copied(local_store, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    saved = save_policy(make_policy(), tmp_path / "scratch")
    monkeypatch.setattr("rlft.files.os.link", refuse)
    materializer = at(PolicyMaterializer, local_store)
    materializer.save(saved)
    found = materializer.load(PolicyFolder)
    assert found.metadata == saved.metadata
    file = found.path / "model" / "model.safetensors"
    assert file.stat().st_nlink == 1
    assert file.read_bytes() == (saved.path / "model" / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        (TaskSetMaterializer, TaskSet),
        (RolloutsMaterializer, Rollouts),
        (RewardsMaterializer, Rewards),
        (PolicyMaterializer, PolicyFolder),
        (ReportMaterializer, TrainReport),
    ],
)
def test_zenml_knows_who_stores_what(kind, type_):
    assert materializer_registry[type_] is kind


def test_a_report_is_read_into_a_kind_of_report_alone(local_store, tmp_path, noted):
    """pydantic calls a function with what stands in the file, and the type's name is in the home's database."""
    materializer = at(ReportMaterializer, local_store)
    materializer.save(PromptCheck({}))
    file, wanted = Path(materializer.uri) / "report.json", tmp_path / "written"
    file.write_text(json.dumps({"format": 1, "path": str(wanted), "text": "x"}))
    noted.clear()
    with pytest.raises(DamagedError, match="is no kind of report"):
        materializer.load(write_file)
    assert not wanted.exists()
