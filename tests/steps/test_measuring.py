"""The steps beside a result, on a policy's folder and a file of demonstrations."""

from __future__ import annotations

import json

from mlops.runs.runtime import Runtime
from rlft.config import WarmStartConfig
from rlft.models import save_policy
from rlft.types import TaskSet
from steps import evaluation as module
from steps.tasks import find_contamination
from tests.factories import make_policy, make_task


def test_bits_are_those_of_the_stored_policy(tmp_path, monkeypatch):
    policy = make_policy(characters="".join(map(chr, range(10, 127))) + "\u00e4\u00f6\u00fc\u00df\u00c4\u00d6\u00dc")
    folder, runtime = save_policy(policy, tmp_path / "policy"), Runtime()
    monkeypatch.setattr(module, "current_runtime", lambda: runtime)
    try:
        found = module.measure_forgetting.entrypoint(folder, "cpu", "")
    finally:
        runtime.close()
    assert sorted(found.bits) == ["arithmetic", "code", "dialogue", "english", "german"]
    assert list(found.left_out) == ["spanish"]  # whose accents the tokenizer lacks
    assert found.policy == folder.metadata.weights_hash


def test_tasks_are_compared_with_the_train_tasks_and_with_the_file_of_demonstrations(tmp_path):
    shown = tmp_path / "shown.jsonl"
    rows = [[("user", "another"), ("assistant", "x")], [("user", "What is a  word?"), ("assistant", "this")]]
    shown.write_text(
        "\n".join(json.dumps({"messages": [{"role": role, "content": said} for role, said in row]}) for row in rows)
    )
    tasks = (
        make_task("t", "known"),
        make_task("a", "KNOWN", split="test"),
        make_task("b", "what is a word?", split="test"),
        make_task("c", "known", split="validation"),
    )
    settings = WarmStartConfig(path=str(shown), steps=1)
    find = find_contamination.entrypoint
    found = find(TaskSet(tasks, "f"), ["test"], settings, "")
    assert {task: each.other for task, each in found.found.items()} == {"a": "t", "b": "demonstration 2"}
    assert found.compared == {"train": 1, "demonstrations": 2}
    assert list(find(TaskSet(tasks, "f"), ["test", "gate"], None, "").found) == ["a"]
