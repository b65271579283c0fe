"""What the file of a specification may not ask for by itself."""

import pytest
import yaml

from rlft.config.file import check_key, read_named_specifications
from rlft.errors import ConfigError

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
