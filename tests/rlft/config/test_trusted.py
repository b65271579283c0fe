"""What the file of a specification may not ask for by itself."""

import pytest
import yaml

from cli.reward.opened import reaches
from rlft.config.environment import check_trusted, read_named_specifications
from rlft.config.file import load_config
from rlft.errors import ConfigError
from tests.e2e.conftest import TINY

HOSTED = "https://api.openai.com/v1"


def judge(key, endpoint=HOSTED):
    return {"judge": {"api_key": f"env:{key}", "endpoint": endpoint}}


def problem(content, allowed=()):
    """Return what is refused and its way out, or nothing."""
    try:
        check_trusted(content, allowed, where="reward.spec: s.yaml", setting="reward.spec_may")
    except ConfigError as error:
        return str(error)
    return ""


def test_a_file_does_not_leave_the_sandbox_by_itself():
    assert "reward.spec_may: [no_sandbox]" in problem({"sandbox": "none"})
    assert problem({"sandbox": "none"}, ["no_sandbox"]) == problem({"sandbox": "auto"}) == problem({}) == ""


@pytest.mark.parametrize(
    ("content", "allowed", "refused"),
    [
        (judge("OPENAI_API_KEY"), [], False),
        (judge("OPENAI_API_KEY", "https://api.openai.com:443/v1"), [], False),
        (judge("OPENAI_API_KEY", "https://API.OpenAI.com/v1"), [], False),
        (judge("OPENAI_API_KEY", "http://api.openai.com/v1"), [], True),  # anybody on the way could read it
        (judge("OPENAI_API_KEY", "https://api.openai.com.evil.example/v1"), [], True),
        (judge("OPENAI_API_KEY", "https://api.openai.com@evil.example/v1"), [], True),
        (judge("OPENAI_API_KEY", "https://[broken"), [], True),
        (judge("OPENAI_API_KEY", "https://evil.example/v1"), ["env:OPENAI_API_KEY"], False),
        (judge("GROQ_API_KEY"), [], True),  # the key of another provider
        (judge("JUDGE_KEY", "http://127.0.0.1:8001/v1"), [], False),
        (judge("MY_JUDGE"), [], False),
        (judge("PREJUDGED"), [], True),
        (judge("AWS_SECRET_ACCESS_KEY"), ["env:HF_TOKEN", "no_sandbox"], True),
        ({"judge": {"api_key": None}}, [], False),
        ({"judge": 3}, [], False),
    ],
)
def test_a_file_gets_the_keys_of_judges_alone(content, allowed, refused):
    assert bool(problem(content, allowed)) == refused
    if refused:
        key = content["judge"]["api_key"]
        assert f"reward.spec_may: [{key}]" in problem(content, allowed)
        assert content["judge"]["endpoint"] in problem(content, allowed)


def test_the_config_allows_it_for_the_file_that_it_names(tmp_path):
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"criteria": {}, "sandbox": "none"}))
    named = {"environments": {"a": {"reward": {"spec": "s.yaml", "spec_may": ["no_sandbox"]}}}}
    assert read_named_specifications(named, tmp_path) == {"environments.a.reward.spec": tmp_path / "s.yaml"}
    for allowed in ({}, {"spec_may": "no_sandbox"}, {"spec_may": [{}]}):
        with pytest.raises(ConfigError, match=r"environments.a.reward.spec_may: \[no_sandbox\]"):
            read_named_specifications({"environments": {"a": {"reward": {"spec": "s.yaml", **allowed}}}}, tmp_path)
    inline = {"reward": {"spec": {"criteria": {}, "sandbox": "none"}}}  # the user's own words
    assert read_named_specifications(inline, tmp_path) == {}


def test_what_a_reward_does_beyond_comparing_texts_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("raise RuntimeError('it ran')")
    program = "{type: python, source: 'def grade(sample, item): return 1.0'}"
    graders = ["{type: function, function: 'mine.py:f'}", "{type: function, function: 'mine:g'}", program]
    graders += ["{type: judge, question: 'Is it?'}"]
    criteria = ", ".join(f"c{n}: {{says: s, grader: {grader}}}" for n, grader in enumerate(graders))
    asked = "judge: {endpoint: 'http://127.0.0.1:1/v1', model: m, api_key: 'env:JUDGE_KEY'}"
    overrides = ["environment.name=rlft.environments.specified:Plain", "environment.kwargs={}"]
    config = load_config(TINY, [*overrides, f"reward.spec={{criteria: {{{criteria}}}, {asked}, sandbox: none}}"])
    assert reaches(config) == [
        f"This runs the code in {tmp_path / 'mine.py'}.",
        "This sends the key in $JUDGE_KEY to http://127.0.0.1:1/v1.",
        "This runs programs with your rights, as the specification says `sandbox: none`.",
    ]
    plain = "{criteria: {c: {says: s, grader: {type: exact}}}, sandbox: none}"
    assert reaches(load_config(TINY, [*overrides, f"reward.spec={plain}"])) == []
