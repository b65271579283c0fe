"""What the file of a specification may not ask for by itself."""

import pytest
import yaml

from cli.reward import reaches
from rlft.config.file import check_key, load_config, read_named_specifications
from rlft.errors import ConfigError
from tests.e2e.conftest import TINY

HOSTED = "https://api.openai.com/v1"


@pytest.mark.parametrize("key", ["env:OPENAI_API_KEY", "env:PREJUDGED", "env:AWS_SECRET_ACCESS_KEY"])
def test_a_file_gets_the_keys_of_judges_alone(key, tmp_path):
    content = {"criteria": {}, "judge": {"api_key": key, "endpoint": HOSTED}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match=key) as refused:
        read_named_specifications({"environments": {"a": {"reward": {"spec": "s.yaml"}}}}, tmp_path)
    assert refused.value.where == f"environments.a.reward.spec: {tmp_path / 's.yaml'}"
    assert HOSTED in refused.value.what
    read_named_specifications({"reward": {"spec": content}}, tmp_path)  # the user's own words


@pytest.mark.parametrize("judge", [{"api_key": "env:JUDGE_KEY"}, {"api_key": "env:MY_JUDGE"}, {"api_key": None}, 3])
def test_what_is_for_judges_or_is_no_key_passes(judge):
    check_key({"judge": judge}, "s.yaml")


def test_what_a_reward_does_beyond_comparing_texts_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("raise RuntimeError('it ran')")
    graders = ["{type: function, function: 'mine.py:f'}", "{type: function, function: 'mine:g'}"]
    graders += ["{type: judge, question: 'Is it?'}"]
    criteria = ", ".join(f"c{n}: {{says: s, grader: {grader}}}" for n, grader in enumerate(graders))
    asked = "judge: {endpoint: 'http://127.0.0.1:1/v1', model: m, api_key: 'env:JUDGE_KEY'}"
    overrides = ["environment.name=rlft.environments.specified:Plain", "environment.kwargs={}"]
    config = load_config(TINY, [*overrides, f"reward.spec={{criteria: {{{criteria}}}, {asked}}}"])
    assert reaches(config) == [
        f"This runs the code in {tmp_path / 'mine.py'}.",
        "This sends the key in $JUDGE_KEY to http://127.0.0.1:1/v1.",
    ]
