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
         r"it takes \(completion, ground_truth, task\), at .*mine.py:5, but is given completion and ground_truth: "
         "missing a required argument: 'task'",
         r"write compute_reward\(self, completion, ground_truth\); the task is completion.task, the answer's text"),
        ("    def compute_reward(self, completion): ...\n", "compute_reward", "too many positional arguments",
         r"write compute_reward\(self, completion, ground_truth\)"),
        ("    def compute_reward(self, *, completion, ground_truth): ...\n", "compute_reward", "too many positional",
         r"write compute_reward\(self, completion, ground_truth\)"),
        ("    def compute_reward(self, ground_truth, completion): ...\n", "compute_reward",
         "completion and ground_truth, in this order: completion would be its ground_truth",
         r"write compute_reward\(self, completion, ground_truth\)"),
        (PAID + "    def context(self): ...\n", "context", r"it takes \(\), at .*mine.py:7, but is given task: too",
         r"write context\(self, task\)"),
        (PAID + "    def setup(self, task, seed): ...\n", "setup", "but is given task: missing .*'seed'",
         r"write setup\(self, task\)"),
        (PAID + "    def list_tools(self, task): ...\n", "list_tools", "but is given nothing: missing",
         r"write list_tools\(self\)"),
        (PAID + "    def run_tool(self, rollout_id): ...\n", "run_tool", "but is given rollout_id and tool_name",
         r"run_tool\(self, rollout_id, tool_name, \*\*args\)"),
        (PAID + "    def run_tool(self, tool_name, rollout_id, **args): ...\n", "run_tool", "would be its tool_name",
         r"run_tool\(self, rollout_id, tool_name, \*\*args\)"),
        (PAID + "    def respond(self, completion): ...\n", "respond", "but is given rollout_id and completion",
         r"write respond\(self, rollout_id, completion\); the task is completion.task"),
        (PAID + "    def gold_completion(self): ...\n", "gold_completion", "but is given task",
         r"write gold_completion\(self, task\)"),
        ("    @rlft.reward\n    def right(self, text, truth): ...\n", "right",
         r"it takes \(text, truth\), at .*mine.py:[56], but no reward is given truth",
         r"did you mean ground_truth\? A reward takes, by name, what it needs of: completion, text, thinking, "),
        ("    @rlft.reward\n    def right(self, text): ...\n    @rlft.metric\n    def long(self, row): ...\n", "long",
         "but no reward is given row", "A reward takes, by name"),
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
    assert problem.startswith("Mine.right: it takes (text, truth), at ")
    assert "but no reward is given truth; what to do: did you mean ground_truth?" in problem


TOOL = {"name": "search", "description": "Find papers.", "parameters": {"query": "Words."}}


@pytest.mark.parametrize(
    ("run_tool", "said"),
    [
        (
            lambda self, rollout_id, tool_name, q: "",
            r"the arguments of search \(query\): missing a required argument: 'q'",
        ),
        (lambda self, rollout_id, tool_name, q="": "", "got an unexpected keyword argument 'query'"),
        (lambda self, rollout_id, tool_name, query, limit: "", "missing a required argument: 'limit'"),
    ],
)
def test_run_tool_takes_what_list_tools_names(run_tool, said):
    environment = type("Papers", (rlft.BaseEnv,), {"list_tools": lambda self: [TOOL], "run_tool": run_tool})()
    with pytest.raises(EnvironmentSetupError, match=said) as caught:
        open_playground(environment, HarnessConfig())
    assert "run_tool(self, rollout_id, tool_name, **args)" in caught.value.fix
    assert "test_signatures.py:" in caught.value.what


def test_run_tool_may_name_the_arguments_itself():
    methods = {"list_tools": lambda self: [TOOL], "run_tool": lambda self, rollout_id, tool_name, query, limit=3: ""}
    assert list(open_playground(type("Papers", (rlft.BaseEnv,), methods)(), HarnessConfig()).tools) == ["search"]


@pytest.mark.parametrize(
    ("tool", "missing", "given"),
    [
        ({"name": "search", "description": "x", "params": {"query": "Words."}}, "parameters", "params"),
        ({"name": "search", "description": "x", "arguments": {"query": "Words."}}, "parameters", "arguments"),
        ({"name": "search", "descr": "x", "parameters": {"query": "Words."}}, "description", "descr"),
    ],
)
def test_a_key_of_a_tool_that_is_not_read_is_named(tool, missing, given):
    with pytest.raises(EnvironmentSetupError, match=f"it has no '{missing}', but '{given}'") as caught:
        read_tools([tool])
    assert "what is read: name, description, parameters, input_schema, inputSchema" in caught.value.fix


def test_keys_that_others_read_are_of_no_matter():
    own = {"title": "Search", "outputSchema": {"type": "object"}, "annotations": {}, "_meta": None, "execution": {}}
    assert read_tools([{"name": "search", "description": "x", "inputSchema": {"type": "object"}, **own}])
    assert read_tools([{"name": "now", **own}])


def test_a_wrong_argument_of_the_constructor_is_told_the_names_there_are(tmp_path):
    methods = "    def __init__(self, strict=False, *, depth: int = 3): ...\n" + PAID
    with pytest.raises(EnvironmentSetupError) as caught:
        load(tmp_path, methods, {"strikt": True})
    assert caught.value.what == "Mine cannot be built: got an unexpected keyword argument 'strikt'"
    arguments = "Mine(strict=False, *, depth: int = 3)"
    assert caught.value.fix == f"did you mean strict? its arguments are {arguments}, at {tmp_path / 'mine.py'}:5"


def test_a_wrong_argument_of_an_object_is_told_the_names_there_are(tmp_path):
    (tmp_path / "client.py").write_text("class Client:\n    def __init__(self, url, seconds=3): ...\n")
    client = {"_target_": f"{tmp_path / 'client.py'}:Client", "port": 80}
    with pytest.raises(EnvironmentSetupError) as caught:
        load(tmp_path, "    def __init__(self, client): ...\n" + PAID, {"client": client})
    assert "unexpected keyword argument 'port'" in caught.value.what
    assert caught.value.fix == "check the keys beside _target_: they are its arguments, Client(url, seconds=3)"
