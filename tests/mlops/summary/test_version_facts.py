"""What is known of a version comes from the run's summary, settings, tasks and reports, and is all in its card."""

from __future__ import annotations

import pytest
import yaml

from mlops.summary.summary import Difference, Summary
from mlops.summary.version_facts import Registration, version_facts
from rlft.environments.contract.base import BaseEnv
from rlft.models import PolicyFolder
from rlft.models.tokens import character_tokenizer
from rlft.reporting.model_card import version_files
from rlft.texts.blocks import Headline
from rlft.types import Evaluation, Task, TaskSet
from tests.mlops.registry.test_versions import qwen, write_policy
from tests.rlft.reporting.version_facts import report

CONFIG = {
    "name": "capitals",
    "tasks": {"source": "jsonl", "path": "capitals.jsonl"},
    "environment": {"name": "capitals.py:Capitals", "kwargs": {"key": "env:CAPITALS_KEY"}},
    "policy": {"model": "some/base"},
}


class Capitals(BaseEnv):
    """Asks for capitals."""

    system_prompt = "Answer with the city alone."


def change(before, after, low, high):
    return Difference(
        metric="accuracy", before=before, after=after, mean=after - before, ci_low=low, ci_high=high, tasks=20
    )


def summary(**controls):
    given = {"final": {"accuracy": 0.5}, "base": {"accuracy": 0.3}, "difference": change(0.3, 0.5, 0.1, 0.3)}
    return Summary(status="improved", **given, difference_controls=controls)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tokenizer = character_tokenizer("0123456789+=-")
    base = tmp_path_factory.mktemp("base")
    given = {"base_model": str(base), "base_hash": "b0", "content_hash": "c0", "update": 6, "stage": "grpo"}
    return PolicyFolder(write_policy(tmp_path_factory.mktemp("policy"), qwen(tokenizer, 0), tokenizer, **given))


def facts(folder, told_summary, audit=None):
    prompt = ({"role": "user", "content": "q"},)
    splits = ("train", "train", "gate")
    tasks = tuple(
        Task(id=str(n), environment="", prompt=prompt, answer=None, info={}, split=split, group=str(n))
        for n, split in enumerate(splits)
    )
    return version_facts(
        Registration(
            tracking_uri="x",
            run_id="run id",
            name="capitals",
            tags={"zenml.run_name": "capitals-1"},
            config=CONFIG,
            told={"summary": told_summary.model_dump(mode="json"), "audit": audit},
        ),
        ("passes: base",),
        folder,
        Capitals(),
        TaskSet(tasks, "f00d", {}),
        {"base": Evaluation({"test": report(mean=0.3)}), "warm_start": None, "trained": Evaluation({"test": report()})},
    )


def test_facts_of_a_run(folder):
    audit = {"passed": True, "num_tasks": 2, "findings": []}
    found = facts(folder, summary(constant=change(0.1, 0.5, 0.2, 0.6)), audit)
    assert (found.run_name, found.source, found.fingerprint) == ("capitals-1", "jsonl capitals.jsonl", "f00d")
    assert found.sizes == {"train": 2, "gate": 1}
    assert set(found.reports) == {"base", "trained"}
    assert found.shown["system_prompt"] == "Answer with the city alone."
    assert found.simpler == ["No control that was tried does as well (constant)."]
    assert found.caveats == [
        "Apart from the best constant answer no control was trained, so something simpler may do as well."
    ]
    assert found.results[0] == Headline(
        "The trained model is better than what it started from: accuracy 30.0 % -> 50.0 % on 20 test tasks "
        "(+20.0 points, 95 % interval +10.0 to +30.0); no control but the best constant answer (10.0 %) was run, so "
        "whether something simpler does as well is unknown."
    )
    assert found.reward[:2] == ["Asks for capitals.", "right: paid with weight 1, at most 1."]
    files = version_files(found)
    assert yaml.safe_load(files["config.yaml"])["environment"]["kwargs"] == {"key": "env:CAPITALS_KEY"}
    for said in ("Answer with the city alone.", "passes: base", "reward, which passed"):
        assert said in files["README.md"]


def test_a_control_that_is_not_shown_to_be_beaten_is_told(folder):
    found = facts(folder, summary(constant=change(0.1, 0.5, 0.2, 0.6), sft=change(0.5, 0.5, -0.1, 0.1)))
    (told,) = found.simpler
    assert told.startswith(
        "SFT on your gold answers reaches 50.0 %, at no more cost: the trained model is not shown to"
    )
    assert found.caveats == []
    assert "not attacked" in version_files(found)["README.md"]
