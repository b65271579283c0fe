"""What is wrong with a specification is told by its file, its key there, and the nearest name that there is."""

from __future__ import annotations

from copy import deepcopy

import pytest
import yaml

from rlft.config.file import load_config, load_suite
from rlft.errors import ConfigError

CITY = {
    "criteria": {
        "right": {"says": "It is right.", "grader": {"type": "exact"}},
        "named": {"says": "It is named.", "grader": {"type": "contains", "texts": ["a"]}},
    },
    "cases": [
        {"attempt": "a", "at_least": 1, "reason": "So."},
        {"attempt": "b", "at_most": 1, "reason": "So."},
    ],
}
TASKS = {"source": "jsonl", "path": "rows.jsonl"}
CONFIG = {"name": "try", "tasks": TASKS, "policy": {"model": "m"}, "reward": {"spec": "specs/city.yaml"}}
FIELDS = "every field of a specification is in docs/guide/graders.md"


def refused(folder, change, *, load=load_config, **more):
    """What is said of the specification in a file after `change` of it."""
    spec = deepcopy(CITY)
    change(spec)
    (folder / "specs").mkdir(exist_ok=True)
    (folder / "specs" / "city.yaml").write_text(yaml.safe_dump(spec))
    (folder / "try.yaml").write_text(yaml.safe_dump({**CONFIG, **more}))
    with pytest.raises(ConfigError) as wrong:
        load(folder / "try.yaml")
    return wrong.value


@pytest.mark.parametrize(
    ("change", "key", "said"),
    [
        (lambda spec: spec.update(criterai={}), "criterai", "unknown setting; did you mean reward.spec.criteria?"),
        (lambda spec: spec["criteria"]["named"].update(esential=True), "criteria.named.esential", "unknown setting"),
        (lambda spec: spec["criteria"]["right"]["grader"].update(type="qqq"), "criteria.right.grader",
         "there is no type 'qqq': it is one of "),
        (lambda spec: spec["criteria"]["right"]["grader"].clear(), "criteria.right.grader", "its `type` is missing"),
        (lambda spec: spec["criteria"]["right"].update(weight=-1, essential=True), "criteria.right",
         "a penalty cannot be essential"),
        (lambda spec: spec["cases"][1].pop("reason"), "cases.1.reason", "it is missing"),
    ],
    ids=["near", "typo", "no such type", "no type", "rule", "missing"],
)  # fmt: skip
def test_a_problem_names_the_key_and_the_page(tmp_path, change, key, said):
    error = refused(tmp_path, change)
    assert f"\n  reward.spec.{key}: {said}" in error.what
    assert error.fix.endswith(FIELDS)
    assert error.where == str(tmp_path / "try.yaml")


def test_a_setting_in_the_wrong_section_is_told_where_it_belongs(tmp_path):
    error = refused(tmp_path, lambda spec: None, learning_rate=3)
    assert (
        "learning_rate: unknown setting; did you mean warm_start.learning_rate or training.learning_rate" in error.what
    )
    assert FIELDS not in error.fix


def test_a_suite_names_the_scenario(tmp_path):
    scenarios = {"a": {"tasks": TASKS, "reward": {"spec": "specs/city.yaml"}}}
    error = refused(tmp_path, lambda spec: spec["criteria"].clear(), load=load_suite, scenarios=scenarios)
    assert "scenarios.a.reward.spec.criteria: " in error.what


def test_a_specification_is_no_config(tmp_path):
    path = tmp_path / "city.yaml"
    path.write_text(yaml.safe_dump(CITY))
    for load in (load_config, load_suite):
        with pytest.raises(ConfigError, match="this is the specification of a reward, and no config") as wrong:
            load(path)
        assert wrong.value.fix == "give a config that names it: reward: {spec: city.yaml}"
