"""The section `environments`: what is made of it, what it goes with, and that a config without it is as it was."""

import json

import pytest

from rlft.config.environment import PLAIN, unscored
from rlft.config.file import check_config, check_variables, load_config, suite_of
from rlft.config.section import SEVERAL, SPECIFICATION
from rlft.errors import ConfigError
from tests.e2e.conftest import ROOT, TINY

SPEC = {"says": "A number.", "criteria": {"right": {"says": "Right.", "grader": {"type": "number"}}}}


def member(**changes):
    tasks = {"source": "jsonl", "path": "tasks.jsonl", "splits": {"train": 10}}
    return {"environment": {"name": "mine.py:Mine"}, "tasks": tasks} | changes


def content(**changes):
    environments = {"one": member(share=3.0), "two": member()} | changes.pop("environments", {})
    scratch = {"characters": "ab", "max_position_embeddings": 2048}
    return {"name": "n", "environments": environments, "policy": {"from_scratch": scratch}} | changes


def read(**changes):
    return check_config(content(**changes), where="here")


def test_the_ordinary_sections_are_made_of_the_environments():
    spec = {"environment": {"name": "other.py:Other", "kwargs": {"key": "env:KEY"}}, "reward": {"spec": SPEC}}
    config = read(environments={"two": member(**spec)})
    assert config.environment.name == SEVERAL
    one, two = config.environment.members().values()
    assert (one.name, one.kwargs) == ("mine.py:Mine", {})
    assert (two.name, two.kwargs["key"]) == ("other.py:Other", "env:KEY")
    assert json.loads(two.kwargs[SPECIFICATION])["says"] == "A number."
    assert config.tasks.members == {name: each.tasks for name, each in config.environments.items()}
    assert config.tasks.splits.train == 20  # ten of each
    assert config.reward.of_member("two").spec is not None
    assert config.reward.of_member("one").spec is None
    assert config.shares == {"one": 3.0, "two": 1.0}
    assert config.environment_name == "one, two"
    assert config.promotion.slices == ["environment"]
    assert list(config.tasks.sources()) == ["environments.one.tasks", "environments.two.tasks"]
    assert unscored(config.environment).members()["two"].kwargs[SPECIFICATION] == ""


def test_a_stored_config_is_read_as_it_was():
    config = read(environments={"two": member(reward={"spec": SPEC})}, promotion={"slices": ["colour"]})
    stored = config.model_dump(mode="json")
    assert check_config(json.loads(json.dumps(stored)), where="stored") == config
    assert stored["promotion"]["slices"] == ["colour", "environment"]


def test_a_specification_needs_no_environment_here_either():
    plain = {name: value for name, value in member(reward={"spec": SPEC}).items() if name != "environment"}
    assert read(environments={"two": plain}).environment.members()["two"].name == PLAIN


def test_a_config_with_one_environment_is_stored_as_before():
    config = load_config(TINY)
    stored = json.dumps(config.model_dump(mode="json"))
    assert '"environments"' not in stored
    assert '"members"' not in stored
    assert config.shares is None
    assert config.environment_name == "rlft.environments.reasoning_gym:ReasoningGym"
    assert list(config.tasks.sources()) == ["tasks", "tasks.off_distribution"]
    assert config.environment.members() == {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"environment": {"name": "a.py:A"}}, "environment: with `environments` each environment has its own"),
        ({"tasks": {"seed": 3}}, "environments.NAME.tasks; move it there"),
        ({"reward": {"audit": False}}, "environments.NAME.reward; move it there"),
        ({"environments": {"two words": member()}}, "'two words' is no name"),
        ({"environments": {"a/b": member()}}, "'a/b' is no name"),
        (
            {"environments": {"two": member(reward={"audit": False})}},
            "reward.audit holds for the whole run",
        ),
        ({"environments": {"two": member(environment={"name": SEVERAL})}}, "an environment is a single one here"),
        ({"environments": {"two": member(reward={"members": {}})}}, "an environment is a single one here"),
        ({"environments": {"two": member(share=0.0)}}, "greater than or equal to 0.001"),
        ({"environments": {"two": member(shar=2.0)}}, "environments.two.shar: unknown setting"),
        ({"warm_start": {"path": "rows.jsonl", "steps": 1}}, "warm_start.path names a file whose rows do not say"),
        ({"controls": ["sft", "few_shot"]}, "controls: few_shot has the same text before every prompt"),
        ({"controls": [{"model": "m"}]}, "controls: model has the same text before every prompt"),
        ({"training": {"curriculum": "pass_rate"}}, "pass_rate draws tasks by their pass rates alone"),
        ({"training": {"max_num_gen_batches": 2}}, "max_num_gen_batches above 1 replaces tasks by any others"),
        ({"suite": {"scenarios": {"a": {}}}}, "suite has scenarios of its own"),
        ({"training": {"scale_rewards": "batch"}, "policy": {"from_scratch": {}}}, "characters: it is missing"),
    ],
)
def test_what_does_not_go_with_several_environments_is_refused(changes, said):
    with pytest.raises(ConfigError) as refused:
        read(**changes)
    assert said in str(refused.value)


def test_tasks_from_use_are_refused():
    tasks = member()["tasks"] | {"use": {"experiment": "served"}}
    with pytest.raises(ConfigError, match="served answers do not say which environment they are of"):
        read(environments={"two": member(tasks=tasks)})


def test_one_environment_is_written_as_ever():
    alone = content()
    del alone["environments"]["two"]
    with pytest.raises(ConfigError, match="there is one; write `environment`, `tasks` and `reward`"):
        check_config(alone, where="here")


@pytest.mark.parametrize(
    "made",
    [
        {"environment": {"name": SEVERAL, "kwargs": {"members": {}}}, "tasks": {"source": "jsonl", "path": "a"}},
        {"environment": {"name": "a.py:A"}, "tasks": {"source": "environments", "members": {}}},
        {"environment": {"name": "a.py:A"}, "tasks": {"source": "environments"}},
        {
            "environment": {"name": "a.py:A"},
            "tasks": {"source": "jsonl", "path": "a", "off_distribution": {"source": "environments"}},
        },
        {
            "environment": {"name": "a.py:A"},
            "tasks": {"source": "jsonl", "path": "a"},
            "reward": {"members": {}},
        },
    ],
)
def test_what_is_made_is_not_to_be_written(made):
    policy = {"from_scratch": {"characters": "ab", "max_position_embeddings": 2048}}
    with pytest.raises(ConfigError, match=r"`environments`|of several environments"):
        check_config({"name": "n", "policy": policy, **made}, where="here")


def test_a_missing_variable_is_named_by_its_setting(monkeypatch):
    monkeypatch.delenv("NOT_THERE", raising=False)
    environment = {"name": "mine.py:Mine", "kwargs": {"key": "env:NOT_THERE"}}
    config = read(environments={"two": member(environment=environment)})
    with pytest.raises(ConfigError, match=r"environments.two.environment.kwargs.key needs the variable NOT_THERE"):
        check_variables(config)


def test_off_distribution_of_any_environment_may_decide():
    other = member()["tasks"] | {"off_distribution": {"source": "jsonl", "path": "b"}}
    suites = {"suites": {"off_distribution": {"margin": 0.1}}}
    config = read(environments={"two": member(tasks=other)}, promotion=suites)
    assert list(config.tasks.sources())[-1] == "environments.two.tasks.off_distribution"
    with pytest.raises(ConfigError, match=r"promotion\.suites names off_distribution"):
        read(promotion=suites)


def test_as_a_suite_it_tells_of_each_environment():
    (several,) = suite_of(load_config(ROOT / "configs/several.yaml")).cells()
    (single,) = suite_of(load_config(TINY)).cells()
    assert (several.slices, single.slices) == (["environment"], [])
