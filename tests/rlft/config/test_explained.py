"""What is wrong with a specification is told by its file, its key there, and the nearest name that there is."""

from __future__ import annotations

from copy import deepcopy

import pytest
import yaml

from rlft.config.file import load_config
from rlft.config.suite_file import load_suite
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


def refused(folder, change, *, inline=False, load=load_config, **more):
    """What is said of the specification after `change` of it, in a file or in the config."""
    spec = deepcopy(CITY)
    change(spec)
    (folder / "specs").mkdir(exist_ok=True)
    (folder / "specs" / "city.yaml").write_text(yaml.safe_dump(spec))
    config = {**CONFIG, **more} | ({"reward": {"spec": spec}} if inline else {})
    (folder / "try.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigError) as wrong:
        load(folder / "try.yaml")
    return wrong.value


@pytest.mark.parametrize(
    ("change", "key", "said"),
    [
        (lambda spec: spec["criteria"]["named"].update(esential=True), "criteria.named.esential",
         "unknown setting; did you mean criteria.named.essential?"),
        # `text` is near a field of the grader `contains` alone, which is not the first of them.
        (lambda spec: spec["criteria"]["named"]["grader"].update(text=["b"]), "criteria.named.grader.contains.text",
         "unknown setting; did you mean criteria.named.grader.contains.texts?"),
        (lambda spec: spec["criteria"]["right"]["grader"].update(type="exactt"), "criteria.right.grader",
         "there is no type 'exactt'; did you mean exact?"),
        (lambda spec: spec["criteria"]["right"]["grader"].update(type="qqq"), "criteria.right.grader",
         "there is no type 'qqq': it is one of "),
        (lambda spec: spec["criteria"]["right"]["grader"].clear(), "criteria.right.grader", "its `type` is missing"),
        (lambda spec: spec["criteria"]["right"].update(weight=-1, essential=True), "criteria.right",
         "a penalty cannot be essential"),
    ],
    ids=["typo", "typo in a grader", "typo of a type", "no such type", "no type", "rule"],
)  # fmt: skip
def test_a_problem_names_the_file_and_the_key_in_it(tmp_path, change, key, said):
    error = refused(tmp_path, change)
    assert f"\n  {tmp_path / 'specs' / 'city.yaml'}: {key}: {said}" in error.what
    assert error.fix == FIELDS
    assert error.where == str(tmp_path / "try.yaml")
    inline = refused(tmp_path, change, inline=True)
    assert f"\n  reward.spec.{key}: " in inline.what
    assert inline.fix == FIELDS


def test_cases_are_counted_as_the_check_counts_them(tmp_path):
    def change(spec):
        del spec["cases"][1]["reason"]

    assert "city.yaml: case 2: reason: it is missing" in refused(tmp_path, change).what
    assert "  reward.spec: case 2: reason: it is missing" in refused(tmp_path, change, inline=True).what
    assert "city.yaml: cases: Input should be a valid list" in refused(tmp_path, lambda spec: spec.update(cases=3)).what


def test_settings_beside_a_specification_have_their_own_page(tmp_path):
    error = refused(tmp_path, lambda spec: spec["criteria"]["right"].update(wieght=1), trainig={})
    assert error.fix == f"every setting, with its unit and default, is in docs/guide/settings.md; {FIELDS}"
    error = refused(tmp_path, lambda spec: None, trainig={})
    assert error.fix == "every setting, with its unit and default, is in docs/guide/settings.md"


def test_a_suite_names_the_file_of_each_scenario(tmp_path):
    scenarios = {"a": {"tasks": TASKS, "reward": {"spec": "specs/city.yaml"}}}
    error = refused(tmp_path, lambda spec: spec["criteria"].clear(), load=load_suite, scenarios=scenarios)
    assert f"{tmp_path / 'specs' / 'city.yaml'}: criteria: " in error.what


def test_a_specification_is_no_config(tmp_path):
    path = tmp_path / "city.yaml"
    path.write_text(yaml.safe_dump(CITY))
    for load in (load_config, load_suite):
        with pytest.raises(ConfigError, match="this is the specification of a reward, and no config") as wrong:
            load(path)
        assert wrong.value.fix == "give a config that names it: reward: {spec: city.yaml}"
