"""Several environments in one: each task is its own environment's alone."""

import pytest

from rlft.config import EnvironmentConfig
from rlft.environments.contract.base import prompt_messages
from rlft.environments.contract.loading import load_environment
from rlft.environments.contract.several import Several, in_turn, places_of
from rlft.errors import ConfigError, TaskError
from tests.factories import FirstCharacter
from tests.rlft.several import make_several, of


def test_each_item_goes_to_its_own_environment_and_comes_back_in_its_place():
    several, asked = make_several(), []
    tasks = [of("words", 0), of("sums", 1), of("words", 2), of("sums", 3)]

    def do(some, member):
        asked.append((member, [task.id for task in some]))
        return [f"{type(member).__name__} {task.id}" for task in some]

    assert in_turn(tasks, lambda task: task, several, do) == [
        "Words words/0",
        "Sums sums/1",
        "Words words/2",
        "Sums sums/3",
    ]
    assert asked == [
        (several.members["sums"], ["sums/1", "sums/3"]),
        (several.members["words"], ["words/0", "words/2"]),
    ]
    assert places_of(several, tasks[:1]) == {"words": [0]}
    single = FirstCharacter()
    assert in_turn(tasks, lambda task: task, single, lambda some, member: [member] * len(some)) == [single] * 4


def test_what_is_asked_about_a_task_is_asked_of_its_environment():
    several = make_several()
    assert [message["content"] for message in prompt_messages(of("sums", 1), several)] == ["Add.", "1+1= (sums)"]
    assert [message["content"] for message in prompt_messages(of("words", 1), several)] == ["1+1= (words)"]
    assert several.gold_completion(of("sums", 1)) == "2"
    assert several.demonstration(of("words", 1)) == "abcdefghij"


def test_a_task_of_none_of_them_is_refused():
    with pytest.raises(TaskError, match="task colours/1 belongs to 'colours', which is none of sums, words"):
        places_of(make_several(), [of("sums", 0), of("colours", 1)])


class Keyed(FirstCharacter):
    """Takes a key, and an object."""

    def __init__(self, key="", tool=None):
        self.key, self.made = key, tool


def test_members_are_loaded_one_by_one_with_their_own_arguments(monkeypatch):
    monkeypatch.setenv("KEY_OF_ONE", "a-b-c")
    name = "tests.rlft.environments.contract.test_several:Keyed"
    made = {"_target_": "builtins:dict", "a": 1}
    settings = EnvironmentConfig.of_several(
        {
            "one": EnvironmentConfig(name=name, kwargs={"key": "env:KEY_OF_ONE"}),
            "two": EnvironmentConfig(name=name, kwargs={"tool": made}),
        }
    )
    assert settings.kwargs["members"]["one"]["kwargs"] == {"key": "env:KEY_OF_ONE"}  # the name alone is stored
    found = load_environment(settings.name, settings.kwargs)
    assert isinstance(found, Several)
    one, two = found.members.values()
    assert (one.key, two.key, two.made) == ("a-b-c", "", {"a": 1})
    monkeypatch.delenv("KEY_OF_ONE")
    with pytest.raises(ConfigError, match="KEY_OF_ONE"):
        load_environment(settings.name, settings.kwargs)
