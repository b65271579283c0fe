"""Every refusal of the settings, and that it says which key and what to do."""

import ast
import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from rlft.config import Config
from rlft.config.file import check_config, load_config, load_suite
from rlft.config.section import SPECIFICATION
from rlft.errors import ConfigError
from tests import settings_page

ROOT = Path(__file__).resolve().parents[2]
BASE = {
    "name": "try",
    "tasks": {"source": "reasoning_gym", "generator": "chain_sum"},
    "environment": {"name": "rlft.environments.reasoning_gym:ReasoningGym"},
    "policy": {"from_scratch": {"characters": "0123456789", "max_position_embeddings": 512}},
}
MODEL = {"model": "some/model"}
CISPO = {"loss_type": "cispo", "epsilon_high": 5.0}
VLLM = {"engine": "vllm"}
SAPO = {"loss_type": "sapo"}
SERVERS = {"engine": "vllm_server", "server": {"addresses": ["http://127.0.0.1:8000"]}}
CORRECTED = {"importance_sampling_correction": "token_truncate"}


def content(**changes):
    """The smallest config, with dotted keys (`training__rounds`) set."""
    made = copy.deepcopy(BASE)
    for key, value in changes.items():
        *sections, last = key.split("__")
        target = made
        for section in sections:
            target = target.setdefault(section, {})
        target[last] = value
    return made


def refused(**changes):
    with pytest.raises(ConfigError) as caught:
        check_config(content(**changes), where="try.yaml")
    assert caught.value.where == "try.yaml"
    assert caught.value.fix
    return caught.value.what


def test_the_smallest_config_holds():
    assert check_config(BASE, where="") == Config.model_validate(BASE)


@pytest.mark.parametrize(
    ("changes", "key", "way_out"),
    [
        ({"tasks__generator": None}, "tasks", "chain_sum"),
        ({"tasks": {"source": "jsonl"}}, "tasks", "needs `path`"),
        ({"tasks__off_distribution": {"source": "csv"}}, "tasks.off_distribution", "needs `path`"),
        ({"evaluation__num_generations": 4}, "evaluation", "set temperature"),
        ({"policy__model": "m"}, "policy", "`model` (a hub name or folder) or `from_scratch`"),
        ({"policy": {}}, "policy", "`model` (a hub name or folder) or `from_scratch`"),
        ({"training__num_generations": 1}, "training", "use at least 2"),
        ({"training__updates_per_round": 33}, "training", "lower updates_per_round"),
        ({"training__advantage": "leave_one_out"}, "training", "set scale_rewards to none"),
        ({"training": {"advantage": "leave_one_out", "scale_rewards": "batch"}}, "training", "scale_rewards=batch"),
        ({"training__delta": 1.2}, "training", "delta=1.2 must be above 1 + epsilon_high"),
        ({"training": {"delta": 1.28, "epsilon_high": 0.28}}, "training", "delta=1.28 must be above"),
        ({"training__loss_type": "cispo"}, "training", "epsilon_high=None: for cispo it is the cap"),
        ({"training": CISPO | {"epsilon_high": 0.28}}, "training", "epsilon_high=0.28: for cispo it is the cap"),
        ({"training": CISPO | {"delta": 7.0}}, "training", "delta=7.0 does nothing with loss_type cispo"),
        ({"training": CISPO | {"epsilon": 0.1}}, "training", "epsilon=0.1 does nothing with loss_type cispo"),
        ({"training": SAPO | {"delta": 2.0}}, "training", "delta=2.0 does nothing with loss_type sapo"),
        (
            {"training__sapo_temperature_pos": 2.0},
            "training",
            "sapo_temperature_pos=2.0 does nothing with loss_type dapo",
        ),
        ({"training": CISPO | {"sapo_temperature_neg": 2.0}}, "training", "does nothing with loss_type cispo"),
        ({"training__epsilon_high": 1.5}, "training", "epsilon_high=1.5 is added to 1, so that hardly"),
        ({"training__loss_kwargs": {"power": 2}}, "training", "does nothing with loss_type dapo"),
        (
            {"training": {"loss_type": "my_loss.py:Mine", "epsilon": 0.1}},
            "training",
            "epsilon=0.1 does nothing with loss_type my_loss.py:Mine, whose settings stand in loss_kwargs",
        ),
        (
            {"rollout": VLLM | {"temperature": 2.5}},
            "the whole config",
            "rollout.temperature=2.5: vllm samples at 0.01",
        ),
        ({"rollout": SERVERS | {"temperature": 2.1}}, "the whole config", "or rollout.engine to transformers"),
        ({"rollout": VLLM, "evaluation__temperature": 2.5}, "the whole config", "evaluation.temperature=2.5: vllm"),
    ],
)
def test_pairs_that_cannot_be(changes, key, way_out):
    line = refused(**changes).splitlines()[1]
    assert line.strip().startswith(f"{key}: ")
    assert way_out in line


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"name": "has spaces"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "-x"}, "name"),
        ({"seed": -1}, "seed"),
        ({"environment__name": "no_colon"}, "environment.name"),
        ({"environment__name": "a:b c"}, "environment.name"),
        ({"tasks__source": "excel"}, "tasks.source"),
        ({"tasks__splits": {"gate": 0}}, "tasks.splits.gate"),
        ({"tasks__max_bad_rows": -1}, "tasks.max_bad_rows"),
        ({"reward__timeout_seconds": 0}, "reward.timeout_seconds"),
        ({"policy": MODEL | {"lora": {"rank": 0}}}, "policy.lora.rank"),
        ({"policy": MODEL | {"dtype": "float16"}}, "policy.dtype"),
        ({"policy__keep": {"last": 0}}, "policy.keep.last"),
        ({"policy__from_scratch__characters": ""}, "policy.from_scratch.characters"),
        ({"warm_start": {}}, "warm_start.steps"),
        ({"baseline__already_solved": 1.1}, "baseline.already_solved"),
        ({"rollout__temperature": 0}, "rollout.temperature"),
        ({"rollout__max_completion_length": 0}, "rollout.max_completion_length"),
        ({"training__learning_rate": 0}, "training.learning_rate"),
        ({"training__epsilon": 1.0}, "training.epsilon"),
        ({"training__beta": -0.1}, "training.beta"),
        ({"training__curriculum": "hardest"}, "training.curriculum"),
        ({"training__max_num_gen_batches": 0}, "training.max_num_gen_batches"),
        ({"training__pass_rates": {"half_life": 0.0}}, "training.pass_rates.half_life"),
        ({"training__pass_rates": {"retire_at": 0.5}}, "training.pass_rates.retire_at"),
        ({"training__loss_type": "ppo"}, "training"),
        ({"training__loss_type": "my_loss.py"}, "training"),
        ({"training__adam_beta2": 1.0}, "training.adam_beta2"),
        ({"training__epsilon_high": 0.0}, "training.epsilon_high"),
        ({"training__delta": 0.0}, "training.delta"),
        ({"training__num_iterations": 0}, "training.num_iterations"),
        ({"training__advantage": "rloo"}, "training.advantage"),
        ({"training__importance_sampling_level": "rollout"}, "training.importance_sampling_level"),
        ({"training__importance_sampling_correction": "truncate"}, "training.importance_sampling_correction"),
        ({"training": CORRECTED | {"importance_sampling_min": 0.0}}, "training.importance_sampling_min"),
        ({"training": CORRECTED | {"importance_sampling_min": 1.0}}, "training.importance_sampling_min"),
        ({"training": CORRECTED | {"importance_sampling_max": 1.0}}, "training.importance_sampling_max"),
        ({"training": CORRECTED | {"importance_sampling_max": None}}, "training.importance_sampling_max"),
        ({"evaluation__temperature": -1.0}, "evaluation.temperature"),
        ({"evaluation__top_p": 0.0}, "evaluation.top_p"),
        ({"evaluation__top_p": 1.1}, "evaluation.top_p"),
        ({"evaluation__top_k": -1}, "evaluation.top_k"),
        ({"evaluation__min_p": 1.0}, "evaluation.min_p"),
        ({"evaluation__min_p": -0.1}, "evaluation.min_p"),
        ({"promotion__min_improvement": -0.1}, "promotion.min_improvement"),
    ],
)
def test_values_out_of_range(changes, key):
    assert f"  {key}: " in refused(**changes)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("training__rounds", "3"),
        ("training__rounds", 3.0),
        ("training__rounds", True),
        ("training__rounds", None),
        ("training__learning_rate", "1e-4"),
        ("training__mask_truncated_completions", 1),
        ("training__mask_truncated_completions", "yes"),
        ("name", 7),
        ("training", [1]),
        ("training", None),
        ("tasks__generator_kwargs", []),
    ],
)
def test_nothing_is_converted(key, value):
    what = refused(**{key: value})
    assert f"  {key.replace('__', '.')}: " in what
    if not isinstance(value, dict):
        assert f"not {value!r}" in what


def test_a_whole_number_is_a_float():
    settings = Config.model_validate(content(training__learning_rate=1, rollout__temperature=2))
    assert (settings.training.learning_rate, settings.rollout.temperature) == (1.0, 2.0)
    assert type(settings.rollout.temperature) is float


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        ("trainig", "training"),
        ("training__num_generation", "training.num_generations"),
        ("training__learning_rat", "training.learning_rate"),
        ("policy__from_scratch__hiden_size", "policy.from_scratch.hidden_size"),
        ("warm_start__step", "warm_start.steps"),
        ("policy__lora__rnk", "policy.lora.rank"),
        ("tasks__off_distribution__generater", "tasks.off_distribution.generator"),
        ("tasks__splits__validaton", "tasks.splits.validation"),
    ],
)
def test_an_unknown_key_and_what_was_meant(key, suggestion):
    assert f"  {key.replace('__', '.')}: unknown setting; did you mean {suggestion}?" in refused(**{key: 1})


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        ("lag", "training.lag"),
        ("rounds", "training.rounds"),  # and not the section `rollout`, which is near
        ("learning_rate", "warm_start.learning_rate or training.learning_rate"),
    ],
)
def test_an_unknown_section_that_is_a_setting_of_one(key, suggestion):
    assert f"  {key}: unknown setting; did you mean {suggestion}?" in refused(**{key: 1})


def test_an_unknown_key_like_no_other():
    assert "  training.zzzzzz: unknown setting\n" in refused(training__zzzzzz=1) + "\n"
    assert "  reward.weights.a: " in refused(reward__weights={"a": "x"})


def test_all_problems_at_once():
    what = refused(training__rounds=0, training__typo=1, seed="x")
    assert what.startswith("3 setting(s)")
    assert all(f"  {key}: " in what for key in ("training.rounds", "training.typo", "seed"))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"policy": MODEL | {"lora": {"target_modules": ["q_proj"]}}, "training__beta": 0.1},
        {"training": CISPO},
        {"training": SAPO | {"sapo_temperature_pos": 1, "sapo_temperature_neg": 2.0}, "evaluation__temperature": 1.0},
        {
            "training": {
                "advantage": "leave_one_out",
                "scale_rewards": "none",
                "beta": 0.1,
                "kl_importance_weighted": True,
            }
        },
        {"training": {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, "delta": 1.001}},
        {"training": {"epsilon_high": 0.28, "delta": 4.0, "num_iterations": 2}},
        {"training": CORRECTED | {"importance_sampling_min": 0.5, "importance_sampling_max": 2.0}},
        {"evaluation": {"temperature": 0.7, "top_p": 0.9, "top_k": 20, "min_p": 0.05}},
        {"evaluation": {"top_p": 1.0, "top_k": 0, "min_p": 0.0}},
        {"training": {"loss_type": "my_loss.py:Mine", "loss_kwargs": {"power": 2.0}}},
        {"warm_start": {"steps": 3}, "tasks__off_distribution": BASE["tasks"], "reward__weights": {"a": 0.5, "b": -1}},
    ],
)
def test_json_and_back(changes):
    settings = Config.model_validate(content(**changes))
    assert Config.model_validate(settings.model_dump(mode="json")) == settings
    assert Config.model_validate_json(settings.model_dump_json()) == settings


def test_settings_are_frozen():
    settings = Config.model_validate(BASE)
    with pytest.raises(ValidationError, match="frozen"):
        settings.training.rounds = 3  # type: ignore[misc]


@pytest.mark.slow
def test_config_needs_no_torch():
    program = "import sys, rlft.config; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
    imported = {
        str(node.module).partition(".")[0]
        for path in (ROOT / "rlft/config").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
    }
    assert imported - sys.stdlib_module_names <= {"rlft", "pydantic", "typing_extensions", "yaml"}


def test_the_page_of_settings_is_made_from_them():
    assert (ROOT / "docs/guide/settings.md").read_text() == settings_page.page(), (
        "python -m tests.settings_page > docs/guide/settings.md"
    )


@pytest.mark.parametrize(
    ("promotion", "more", "expected"),
    [
        ({"suites": {"off_distribution": {"margin": 0.02}}}, {}, "set tasks.off_distribution"),
        ({"suites": {"gate": {"margin": 0.02}}}, {}, "off_distribution"),
        ({"suites": {"test": {"margin": 0}}}, {}, "greater than 0"),
        ({"suites": {"test": {}}}, {}, "margin"),
    ],
)
def test_rules_of_promotion_that_cannot_work(promotion, more, expected):
    with pytest.raises(ValidationError, match=expected):
        Config.model_validate(content(promotion=promotion, **more))


def test_rules_of_promotion():
    rules = {
        "suites": {"test": {"margin": 0.1}, "off_distribution": {"margin": 0.02}},
        "slices": ["a", "b"],
        "audit": "required",
    }
    found = Config.model_validate(content(promotion=rules, tasks__off_distribution=BASE["tasks"])).promotion
    assert {name: rule.margin for name, rule in found.suites.items()} == {"test": 0.1, "off_distribution": 0.02}
    assert found.slices == ["a", "b"]


CITY = {"criteria": {"right": {"says": "The city is right.", "grader": {"type": "exact"}}}}


def specified(**changes):
    made = content(**{"reward__spec": CITY, **changes})
    del made["environment"]
    return made


def test_a_specification_needs_no_environment_and_is_stored_as_it_was_written():
    config = check_config(specified(), where="")
    assert config.environment.name == "rlft.environments.specified:Plain"
    stored = config.model_dump(mode="json")
    assert stored["reward"]["spec"] == CITY
    assert check_config(stored, where="") == config
    assert "spec" not in Config.model_validate(BASE).model_dump()["reward"]


JUDGED = {
    "criteria": {"kind": {"says": "It is kind.", "grader": {"type": "judge", "question": "Is it kind?"}}},
    "judge": {"endpoint": "http://127.0.0.1:1/v1", "model": "small", "api_key": "env:JUDGE_KEY"},
}


def test_the_key_of_a_judge_stands_in_a_variable(tmp_path):
    config = check_config(specified(reward__spec=JUDGED), where="")
    assert config.reward.spec.judge.api_key == "env:JUDGE_KEY"
    assert check_config(config.model_dump(mode="json"), where="") == config  # as it is stored
    scenarios = {"other": {"tasks": BASE["tasks"], "reward": {"spec": JUDGED}, "environment": BASE["environment"]}}
    check_config(content(suite={"scenarios": scenarios}), where="")
    (tmp_path / "judged.yaml").write_text(yaml.safe_dump(JUDGED))
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump({"name": "s", "scenarios": {"other": {
        "tasks": BASE["tasks"], "environment": BASE["environment"], "reward": {"spec": "judged.yaml"}}}}))  # fmt: skip
    assert load_suite(tmp_path / "suite.yaml").scenarios["other"].reward.spec.judge.api_key == "env:JUDGE_KEY"
    written = JUDGED | {"judge": JUDGED["judge"] | {"api_key": "sk-abcdefghijklmnopqrstuvwxyz0123456789"}}
    with pytest.raises(ConfigError, match=r"reward\.spec\.judge\.api_key: looks like a secret"):
        check_config(specified(reward__spec=written), where="")


def test_what_a_specification_says_about_attempts_is_no_setting():
    exact = {"says": "It is right.", "grader": {"type": "exact"}}
    form = {"type": "object", "properties": {"password": {"type": "string"}}, "required": ["password"]}
    call = {"id": "1", "type": "function", "function": {"name": "login", "arguments": {"password": "hunter2"}}}
    said = {
        "criteria": {"password": exact, "form": {"says": "f", "grader": {"type": "json_schema", "json_schema": form}}},
        "cases": [
            {"attempt": "env:HOME", "item": {"token": "fox"}, "at_most": 1, "reason": "r"},
            {"attempt": [{"role": "assistant", "content": "", "tool_calls": [call]}], "at_most": 1, "reason": "r"},
        ],
    }
    config = check_config(specified(reward__spec=said), where="")
    assert check_config(config.model_dump(mode="json"), where="") == config
    said["criteria"]["password"]["says"] = "It is sk-abcdefghijklmnopqrstuvwxyz0123456789."
    with pytest.raises(ConfigError, match=r"reward\.spec\.criteria\.password\.says: looks like a secret.* otherwise"):
        check_config(specified(reward__spec=said), where="")


def test_the_weights_of_a_config_are_those_that_a_gate_knows():
    criteria = {
        "right": {"says": "r", "grader": {"type": "exact"}, "essential": True},
        "short": {"says": "s", "grader": {"type": "length", "at_most": 9, "measured": "characters"}, "weight": 0},
    }
    made = specified(reward__spec={"criteria": criteria}, reward__weights={"short": 2.0, "*": 3.0})
    held = json.loads(check_config(made, where="").environment.kwargs[SPECIFICATION])["criteria"]
    assert (held["short"]["weight"], held["right"].get("weight")) == (2.0, None)
    made["reward"]["weights"] = {"right": -1.0, "short": 1.0}
    with pytest.raises(
        ConfigError, match=r"reward\.weights do not go with reward\.spec: a penalty cannot be essential"
    ):
        check_config(made, where="")


def test_a_specification_is_read_from_a_file_beside_the_config(tmp_path):
    (tmp_path / "city.yaml").write_text(yaml.safe_dump(CITY))
    (tmp_path / "try.yaml").write_text(yaml.safe_dump(specified(reward__spec="city.yaml")))
    assert load_config(tmp_path / "try.yaml") == check_config(specified(), where="")
    (tmp_path / "city.yaml").write_text("criteria: [")
    with pytest.raises(ConfigError, match="not readable as YAML"):
        load_config(tmp_path / "try.yaml")
    (tmp_path / "city.yaml").unlink()
    with pytest.raises(ConfigError, match="relative to the config"):
        load_config(tmp_path / "try.yaml")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reward__spec": "city.yaml"}, "reward.spec: "),
        ({"reward__spec": {"criteria": {}}}, "reward.spec.criteria"),
        ({"reward__spec": CITY, "reward__weights": {"rihgt": 2.0}}, "weights.rihgt: the criteria of `spec` are right"),
        ({"environment__kwargs": {"_specification_": "{}"}}, "is made of reward.spec, which is not there"),
    ],
)
def test_what_is_wrong_with_a_specification_is_told(changes, said):
    assert said in refused(**changes)
