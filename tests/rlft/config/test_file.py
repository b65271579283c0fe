"""Configs from YAML with overrides."""

import pytest

from rlft.config.file import check_variables, load_config
from rlft.errors import ConfigError

YAML = """\
# rlft run try.yaml
name: try
tasks:
  source: reasoning_gym
  generator: chain_sum
environment: {name: "rlft.environments.reasoning_gym:ReasoningGym"}
policy:
  model: some/model
training:
  learning_rate: 1e-4
"""


def load(tmp_path, text=YAML, *overrides):
    path = tmp_path / "try.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config(path, list(overrides))


def refused(tmp_path, text=YAML, *overrides):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, *overrides)
    assert caught.value.where
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1.0e-4", 1e-4),
        ("1.5e-3", 1.5e-3),
        ("5E-6", 5e-6),
        ("+1e-4", 1e-4),
        (".5e-3", 5e-4),
        ("1.e-3", 1e-3),
        ("1e2", 100.0),
        ("0.001", 0.001),
        ("1", 1.0),
    ],
)
def test_numbers_mean_what_everyone_means(tmp_path, text, value):
    assert load(tmp_path, YAML.replace("1e-4", text)).training.learning_rate == value
    assert load(tmp_path, YAML, f"training.learning_rate={text}").training.learning_rate == value


@pytest.mark.parametrize("text", ["'1e-4'", "1e", "e-4", "1e-4x", "~x"])
def test_what_is_no_number_stays_text(tmp_path, text):
    assert "training.learning_rate" in refused(tmp_path, YAML.replace("1e-4", text)).what


def test_overrides(tmp_path):
    settings = load(
        tmp_path,
        YAML,
        "training.rounds=3",
        "training.rounds=4",
        "policy.lora.rank=4",
        "reward.weights.exact=0.5",
        "name=other",
        "tasks.splits={train: 50, gate: 7}",
        "training.epsilon_high=null",
        "warm_start.steps=2",
        "policy.revision=a=b",
        "tasks.prompt='{question} ='",
    )
    assert settings.training.rounds == 4
    assert settings.training.learning_rate == 1e-4
    assert settings.policy.lora is not None
    assert settings.policy.lora.rank == 4
    assert settings.reward.weights == {"exact": 0.5}
    assert settings.name == "other"
    assert (settings.tasks.splits.train, settings.tasks.splits.gate, settings.tasks.splits.test) == (50, 7, 200)
    assert settings.training.epsilon_high is None
    assert settings.warm_start is not None
    assert settings.policy.revision == "a=b"
    assert settings.tasks.prompt == "{question} ="


def test_a_section_that_is_null_or_emptied(tmp_path):
    text = YAML + "warm_start:\n"
    assert load(tmp_path, text).warm_start is None
    assert load(tmp_path, text, "warm_start.steps=3").warm_start.steps == 3  # type: ignore[union-attr]
    assert load(tmp_path, text, "warm_start.steps=3", "warm_start=null").warm_start is None
    assert load(tmp_path, text, "policy.lora=").policy.lora is None


@pytest.mark.parametrize("override", ["", "training", "=3", ".rounds=3", "training.=3", "training..rounds=3"])
def test_overrides_without_a_key(tmp_path, override):
    assert "not key=value" in refused(tmp_path, YAML, override).what


def test_an_override_below_a_value(tmp_path):
    error = refused(tmp_path, YAML, "training.learning_rate.x=3")
    assert error.what == "training.learning_rate is not a section"
    assert error.where == "--set training.learning_rate.x"


@pytest.mark.parametrize("value", ["[1", "{a: 1, a: 2}", "2026-13-01", "!!python/object:os.system x"])
def test_override_values_that_cannot_be_read(tmp_path, value):
    assert refused(tmp_path, YAML, f"training.rounds={value}").where == "--set training.rounds"


def test_an_override_with_a_typing_error(tmp_path):
    assert "did you mean training.rounds?" in refused(tmp_path, YAML, "training.round=3").what


@pytest.mark.parametrize(
    ("extra", "key"),
    [("name: again\n", "name"), ("training: {}\n", "training"), ("seed: 1\nseed: 1\n", "seed")],
)
def test_a_key_given_twice(tmp_path, extra, key):
    error = refused(tmp_path, YAML + extra)
    assert "given twice" in error.what
    assert key in error.what
    assert "line" in error.what


def test_a_nested_key_given_twice(tmp_path):
    what = refused(tmp_path, YAML + "  rounds: 3\n  seed: 1\n  rounds: 3\n").what
    last = len((YAML + "  rounds: 3\n  seed: 1\n").splitlines()) + 1
    assert f"key given twice: 'rounds', line {last}, column 3" in what  # the second of them


def test_anchors_and_merge_keys(tmp_path):
    text = YAML.replace("  generator: chain_sum\n", "  generator: chain_sum\n  splits: &s {train: 99}\n")
    text += "baseline: {num_tasks: 5}\n"
    assert load(tmp_path, text).tasks.splits.train == 99
    merged = text.replace("  splits: &s {train: 99}\n", "  splits: {<<: &s {train: 99, gate: 5}, gate: 6}\n")
    splits = load(tmp_path, merged).tasks.splits
    assert (splits.train, splits.gate) == (99, 6)


@pytest.mark.parametrize(
    "text",
    [b"", b"- a\n", b"7\n", b"name: [\n", b"\xff\xfe\x00", b"name: 2026-13-01\n", b"a: !!python/name:os.system\n"],
)
def test_files_that_are_no_config(tmp_path, text):
    assert refused(tmp_path, text).where == str(tmp_path / "try.yaml")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="no such file") as caught:
        load_config(tmp_path / "none.yaml")
    assert "configs/demo.yaml" in caught.value.fix
    with pytest.raises(ConfigError, match="this is a folder, not a file"):
        load_config(tmp_path)


@pytest.mark.parametrize("key", ["1", "none", "true", "2.5"])
def test_keys_that_are_no_text(tmp_path, key):
    assert key.lower() in refused(tmp_path, f"{YAML}{key}: 3\n").what.lower()


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        (YAML, ["environment.kwargs.api_key=Wq6Wq6Wq6"]),
        (YAML, ["environment.kwargs={headers: {Authorization: Bearer Wq6}}"]),
        (YAML, ["environment.name=ghp_Wq6Wq6Wq6Wq6Wq6Wq6"]),  # which would be shown as no name of a class
        (YAML, ["environment.api_key=Wq6Wq6Wq6"]),  # an unknown setting
        (YAML, ["environment.kwargs.api_key:sk-Wq6Wq6Wq6Wq6Wq6Wq6"]),  # a slip of the pen
        (YAML, ["environment.kwargs.api_key={Wq6Wq6Wq6"]),
        (YAML + "promotion: {name: https://u:Wq6/x@h}\n", []),
        (YAML + "tracking:\n  experiment: Wq6: [\n", []),  # no YAML, and the parser would show the line
    ],
)
def test_no_message_shows_a_secret(tmp_path, text, overrides):
    assert "Wq6" not in str(refused(tmp_path, text, *overrides))


def test_a_secret_is_named_with_the_way_out(tmp_path):
    what = refused(tmp_path, YAML, "environment.kwargs.api_key=Wq6", "tasks.generator_kwargs.pwd=Wq6").what
    assert "tasks.generator_kwargs.pwd, environment.kwargs.api_key: looks like a secret" in what
    assert "env:NAME" in what


def test_variables_are_checked_before_a_run(tmp_path, monkeypatch):
    monkeypatch.delenv("RLFT_TEST_UNSET", raising=False)
    for setting in ("environment.kwargs.api_key=env:RLFT_TEST_UNSET", "rollout.server.addresses=[env:RLFT_TEST_UNSET]"):
        with pytest.raises(ConfigError, match="needs the variable RLFT_TEST_UNSET"):
            check_variables(load(tmp_path, YAML, setting))
    monkeypatch.setenv("RLFT_TEST_UNSET", "http://127.0.0.1:8000")
    check_variables(load(tmp_path, YAML, setting))


@pytest.mark.parametrize(
    ("override", "line"),
    [
        (
            "environment.name=capitals.py",
            "environment.name: 'capitals.py' names no class; write capitals.py:Capitals or package.module:Capitals",
        ),
        (
            "name=my task",
            "name: 'my task' is no name: use letters, digits, _, . and -, and begin with a letter or digit",
        ),
        ("policy.lora=true", "policy.lora: a section of settings belongs here, not True"),
        ("warm_start={demonstrations: 3}", "warm_start.steps: it is missing and has no default"),
    ],
)
def test_common_mistakes_are_explained_in_words(tmp_path, override, line):
    assert refused(tmp_path, YAML, override).what.splitlines()[1].strip() == line
