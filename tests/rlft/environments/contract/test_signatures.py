"""A method that cannot be called as it is called is refused before work is lost, with the names that there are."""

import re

import pytest

import rlft
from rlft.config import HarnessConfig
from rlft.environments.contract.loading import load_environment
from rlft.environments.contract.tools import read_tools
from rlft.errors import EnvironmentSetupError
from rlft.harness.opening import open_playground
from rlft.rewards.audit.environment import check_environment

PAID = "    def compute_reward(self, completion, truth):\n        return 1.0\n"


def load(tmp_path, methods, kwargs=None):
    """An environment with these methods, from a file of its own."""
    text = f"import rlft\n\n\nclass Mine(rlft.BaseEnv):\n{methods}"
    (tmp_path / "mine.py").write_text(text)
    return load_environment(f"{tmp_path / 'mine.py'}:Mine", kwargs or {})


@pytest.mark.parametrize(
    ("methods", "name", "what", "fix"),
    [
        ("    def compute_reward(self, completion, ground_truth, task): ...\n", "compute_reward",
         r"missing a required argument: 'task', at .*mine.py:5",
         r"write compute_reward\(self, completion, ground_truth\)"),
        (PAID + "    def context(self): ...\n", "context", "called with task: too many",
         r"write context\(self, task\)"),
        (PAID + "    def list_tools(self, task): ...\n", "list_tools", "called with nothing: missing",
         r"write list_tools\(self\)"),
        (PAID + "    context = 'Be brief.'\n", "context", "not a callable object", r"write context\(self, task\)"),
        ("    @rlft.reward\n    def right(self, text, truth): ...\n", "right", "missing a required argument: 'truth'",
         "a reward takes, by name, what it needs of: completion, text, thinking, "),
    ],
)  # fmt: skip
def test_a_method_that_cannot_be_called_is_refused(tmp_path, methods, name, what, fix):
    with pytest.raises(EnvironmentSetupError) as caught:
        load(tmp_path, methods)
    assert caught.value.where == f"Mine.{name}"
    assert re.search(what, caught.value.what), caught.value.what
    assert re.search(fix, caught.value.fix), caught.value.fix


@pytest.mark.parametrize(
    "methods",
    [
        PAID,  # called by position: any name will do
        "    def compute_reward(self, *given): ...\n",
        "    async def compute_reward(self, completion, ground_truth, scale=1.0): ...\n",
        PAID + "    def run_tool(self, rollout_id, tool_name, title=None): ...\n",
        PAID + "    context = staticmethod(lambda task: '')\n",
        "    @rlft.reward\n    def right(self, text, *, state, limit=10): ...\n",
        "    @rlft.reward\n    def right(self, **known): ...\n",
    ],
)
def test_a_method_that_can_be_called_is_taken(tmp_path, methods):
    assert type(load(tmp_path, methods)).__name__ == "Mine"


def test_the_check_of_an_object_says_so_too():
    class Mine(rlft.BaseEnv):
        @rlft.reward
        def right(self, text, truth):
            return 1.0

    (problem,) = check_environment(Mine(), []).problems
    assert problem.startswith("Mine.right: ")


TOOL = {"name": "search", "description": "Find papers.", "parameters": {"query": "Words."}}


@pytest.mark.parametrize(
    ("run_tool", "said"),
    [
        (
            lambda self, rollout_id, tool_name, q: "",
            "missing a required argument: 'q'",
        ),
        (lambda self, rollout_id, tool_name, q="": "", "got an unexpected keyword argument 'query'"),
        (lambda self, rollout_id, tool_name, query, limit: "", "missing a required argument: 'limit'"),
    ],
)
def test_run_tool_takes_what_list_tools_names(run_tool, said):
    environment = type("Papers", (rlft.BaseEnv,), {"list_tools": lambda self: [TOOL], "run_tool": run_tool})()
    with pytest.raises(EnvironmentSetupError, match=said) as caught:
        open_playground(environment, HarnessConfig())
    assert "run_tool(self, rollout_id, tool_name, /, **args)" in caught.value.fix
    assert "test_signatures.py:" in caught.value.what


def test_run_tool_may_name_the_arguments_itself():
    methods = {"list_tools": lambda self: [TOOL], "run_tool": lambda self, rollout_id, tool_name, query, limit=3: ""}
    assert list(open_playground(type("Papers", (rlft.BaseEnv,), methods)(), HarnessConfig()).tools) == ["search"]


def test_keys_that_others_read_are_of_no_matter():
    own = {"title": "Search", "outputSchema": {"type": "object"}, "annotations": {}, "_meta": None, "execution": {}}
    assert read_tools([{"name": "search", "description": "x", "inputSchema": {"type": "object"}, **own}])
    assert read_tools([{"name": "now", **own}])


def test_a_wrong_argument_of_the_constructor_is_told_the_names_there_are(tmp_path):
    methods = "    def __init__(self, strict=False, *, depth: int = 3): ...\n" + PAID
    with pytest.raises(EnvironmentSetupError, match="unexpected keyword argument 'strikt'") as caught:
        load(tmp_path, methods, {"strikt": True})
    arguments = "Mine(strict=False, *, depth: int = 3)"
    assert caught.value.fix == f"its arguments are {arguments}, at {tmp_path / 'mine.py'}:5"
