"""Names and paths of a config."""

from pathlib import Path

from rlft.config import PolicyConfig, SourceConfig, WarmStartConfig


def test_a_path_may_begin_with_the_users_folder():
    home = str(Path.home())
    assert PolicyConfig(model="~/models/small").model == f"{home}/models/small"
    assert WarmStartConfig(path="~/shown.jsonl", steps=1).path == f"{home}/shown.jsonl"
    assert SourceConfig(source="csv", path="data/~x.csv").path == "data/~x.csv"
