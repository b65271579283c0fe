"""The files that `rlft environments new` writes, and the names it refuses."""

from __future__ import annotations

import pytest

from cli.environments import class_name, write_environment
from rlft.config.file import load_config
from rlft.errors import RlftError

FILES = ["price_list.py", "test_price_list.py", "price_list.jsonl", "price_list.yaml"]


def test_four_files_that_name_each_other(tmp_path):
    written = write_environment("price_list", tmp_path)
    assert [path.name for path in written] == FILES
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    assert not any("$" in path.read_text() for path in written)
    config = load_config(tmp_path / "price_list.yaml")
    assert (config.name, config.environment.name) == ("price_list", "price_list.py:PriceList")
    assert (tmp_path / "price_list.yaml").read_text().startswith("# rlft run price_list.yaml\n")


@pytest.mark.parametrize("there", FILES)
def test_nothing_is_overwritten_and_then_nothing_is_written(tmp_path, there):
    (tmp_path / there).write_text("mine")
    with pytest.raises(RlftError, match=f"there already: {there}"):
        write_environment("price_list", tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(there, "mine")]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Price-List", "small letters, digits and underscores: price_list"),
        ("PriceList", "price_list"),
        ("3cups", "cups"),
        ("../evil", "evil"),
        ("class", "my_tasks"),
        ("", "my_tasks"),
        ("json", "'json' is the name of an installed module"),
        ("rlft", "'rlft' is the name of an installed module"),
    ],
)
def test_a_name_that_cannot_be_a_module_of_its_own_is_refused(tmp_path, name, said):
    with pytest.raises(RlftError) as caught:
        write_environment(name, tmp_path)
    assert said in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_class_is_named_after_the_module():
    assert [class_name(name) for name in ("cups", "price_list", "top_10_list")] == ["Cups", "PriceList", "Top10List"]
