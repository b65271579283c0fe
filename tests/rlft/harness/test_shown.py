"""What a version keeps of an environment's context."""

import dataclasses

from rlft.config import HarnessConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.marks import tool
from rlft.environments.contract.several import Several
from rlft.harness.chat.formats import MISTRAL
from rlft.harness.preparing import shown_context
from rlft.texts.secrets import resolve
from rlft.types import Task
from tests.rlft.harness.chat.tokenizers import make_tokenizer


def tasks(count):
    prompt = ({"role": "user", "content": "q"},)
    return [
        Task(id=str(n), environment="", prompt=prompt, answer=None, info={"n": n}, split="train", group=str(n))
        for n in range(count)
    ]


class Searching(BaseEnv):
    system_prompt = "Be brief."
    max_turns = 3

    @tool
    def search(self, query: str) -> str:
        """Search the pages.

        Args:
            query: words
        """
        return query


class Personal(Searching):
    def context(self, task):
        return f"You are number {task.info['n']}."


def test_prompt_tools_and_how_they_are_written():
    shown = shown_context(Searching(), HarnessConfig(), tasks(3), make_tokenizer("mistral"))
    assert (shown.system_prompt, shown.depends_on_task, shown.note) == ("Be brief.", False, "")
    (search,) = shown.tools
    assert search["type"] == "function"
    assert (search["function"]["name"], search["function"]["description"]) == ("search", "Search the pages.")
    assert search["function"]["parameters"]["properties"]["query"]["description"] == "words"
    assert (shown.tools_in, shown.tool_format, shown.tool_marks) == ("chat_template", "mistral", MISTRAL.marks)
    assert (shown.max_turns, shown.examples) == (3, 0)
    assert shown.model_dump(mode="json")["tools"] == [search]


def test_of_a_context_that_depends_on_the_task_the_tools_are_kept():
    shown = shown_context(Personal(), HarnessConfig(), tasks(3), make_tokenizer("qwen3"))
    assert (shown.system_prompt, shown.depends_on_task, len(shown.tools)) == ("", True, 1)
    assert shown.note.startswith("The system prompt depends on the task (3 different ones for 3 tasks)")
    alone = shown_context(Personal(), HarnessConfig(), tasks(1), make_tokenizer("qwen3"))
    assert (alone.system_prompt, alone.depends_on_task) == ("You are number 0.", False)


def test_a_secret_in_the_prompt_is_hidden_and_that_is_told(monkeypatch):
    monkeypatch.setenv("SHOWN_KEY", "s3cr3t-value")
    resolve({"key": "env:SHOWN_KEY"}, "kwargs")  # as the constructor of an environment is given it
    environment = Searching()
    environment.system_prompt = "Use s3cr3t-value."
    shown = shown_context(environment, HarnessConfig(), tasks(1), make_tokenizer("qwen3"))
    assert shown.system_prompt == "Use ***."
    assert "hidden" in shown.note


def of_members(count, *names):
    return [dataclasses.replace(task, environment=name) for name in names for task in tasks(count)]


def test_of_several_that_show_the_same_that_is_kept():
    several = Several({"one": Searching(), "two": Searching()})
    tokenizer = make_tokenizer(MISTRAL.name)
    alone = shown_context(Searching(), HarnessConfig(), tasks(2), tokenizer)
    assert shown_context(several, HarnessConfig(), of_members(2, "one", "two"), tokenizer) == alone
    assert "members" not in alone.model_dump(mode="json")


def test_of_several_that_differ_nothing_stands_before_a_prompt():
    several = Several({"plain": BaseEnv(), "search": Searching()})
    found = shown_context(several, HarnessConfig(), of_members(2, "plain", "search"), make_tokenizer(MISTRAL.name))
    assert (found.system_prompt, found.tools, found.depends_on_task, found.max_turns) == ("", (), True, 3)
    assert "several environments (plain, search)" in found.note
    stored = found.model_dump(mode="json")["members"]
    assert stored["plain"]["tools"] == []
    assert [tool["function"]["name"] for tool in stored["search"]["tools"]] == ["search"]
    assert stored["search"]["system_prompt"] == "Be brief."
