import sys
from itertools import count

import pytest

from rlft.config.section import SEVERAL
from rlft.environments.contract.loading import load_environment
from rlft.environments.fingerprints import sources
from rlft.environments.fingerprints.analysis import environment_code
from rlft.environments.fingerprints.identity import code_fingerprint, environment_fingerprints
from rlft.environments.gsm8k import GSM8K
from rlft.errors import EnvironmentSetupError

ENVIRONMENT = '''
"""Facts."""
import json
from rlft import BaseEnv, Context
from scores import points
import tools

LIMIT = 5
PROMPT = "Be brief."

def shorten(text):
    return text[:LIMIT]

def normalise(text):
    return text.strip()

class Base(BaseEnv):
    def inherited(self):
        return 1

    def inherited_by_reward(self):
        return 2

class Facts(Base):
    max_turns = 3

    def __init__(self, width=1):
        self.width = width

    def context(self, task):
        return Context(system_prompt=PROMPT + normalise("x"))

    async def run_tool(self, rollout_id, tool_name, **args):
        return tools.look(self.inherited())

    def _grade(self, text):
        """Grade."""
        return points(normalise(text)) + self.inherited_by_reward()

    async def compute_reward(self, completion, ground_truth):
        return {"exact": self._grade(shorten(completion.text))}  # a comment

    def unused(self):
        return "unused"
'''
SCORES = "def points(text):\n    return len(text)\n"
TOOLS = "import deeper\ndef look(x):\n    return deeper.VALUE + x\n"
DEEPER = "VALUE = 1\n"
FILES = {"facts.py": ENVIRONMENT, "scores.py": SCORES, "tools.py": TOOLS, "deeper.py": DEEPER}


@pytest.fixture
def prints(tmp_path, monkeypatch):
    """A function that writes the files with edits and gives the fingerprints of `facts.py:Facts`."""
    folders = count()
    monkeypatch.setattr(sys, "path", list(sys.path))

    def fingerprints(edits=None, kwargs=None, name="facts.py"):
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        files = dict(FILES)
        for file, old, new in edits or ():
            assert old in files[file]
            files[file] = files[file].replace(old, new)
        for file, text in files.items():
            (folder / file).write_text(text)
        monkeypatch.chdir(folder)
        for module in ("scores", "tools", "deeper"):
            sys.modules.pop(module, None)
        environment = load_environment(f"{name}:Facts", kwargs or {})
        return environment_fingerprints(environment, f"{name}:Facts", kwargs or {})

    yield fingerprints
    for module in ("scores", "tools", "deeper"):
        sys.modules.pop(module, None)


EDITS = [
    ("reward", [("facts.py", "shorten(completion.text)", "completion.text")]),
    (
        "reward",
        [("facts.py", "+ self.inherited_by_reward()", "- self.inherited_by_reward()")],
    ),  # a method that only the reward uses
    ("reward", [("facts.py", "LIMIT = 5", "LIMIT = 6")]),  # a constant behind a function behind the reward
    ("reward", [("facts.py", "return 2", "return 3")]),  # an inherited method
    ("reward", [("scores.py", "len(text)", "len(text) + 1")]),  # a module beside it
    (
        "reward",
        [
            (
                "facts.py",
                "    def unused(",
                "    def reward_maxima(self):\n        return {'exact': 5}\n\n    def unused(",
            )
        ],
    ),
    ("harness", [("facts.py", "Be brief.", "Be very brief.")]),
    ("harness", [("facts.py", "return 1", "return 0")]),
    ("harness", [("facts.py", '"unused"', '"used"')]),  # nothing leads to it: who knows
    ("harness", [("tools.py", "+ x", "- x")]),
    ("harness", [("deeper.py", "VALUE = 1", "VALUE = 2")]),  # what the tools import
    ("both", [("facts.py", "text.strip()", "text.lower()")]),  # a function that both use
    ("both", [("facts.py", "max_turns = 3", "max_turns = 4")]),
    ("both", [("facts.py", "self.width = width", "self.width = 2 * width")]),
    ("both", [("facts.py", "class Facts(Base)", "class Facts(Base, json.JSONEncoder)")]),
    ("neither", [("facts.py", "  # a comment", "")]),
    # A docstring may be what a model or a judge reads.
    ("reward", [("facts.py", '"""Grade."""', '"""Grade by points."""')]),
    ("neither", [("facts.py", '"""Facts."""', '"""More facts."""')]),  # of the module: nothing reads it
    ("harness", [("deeper.py", "VALUE = 1", '"""Numbers."""\nVALUE = 1')]),
    ("neither", [("facts.py", "LIMIT = 5", "LIMIT   =   5\n\n\nNOBODY_READS_THIS = 1")]),
    # The object itself is handed on: anything may happen to it, so all of the module counts for both.
    ("both", [("facts.py", "return points(", "return repr(self) + points(")]),
]


@pytest.mark.parametrize(("side", "edits"), EDITS)
def test_an_edit_changes_the_side_it_belongs_to(prints, side, edits):
    before, after = prints(), prints(edits)
    assert (before.harness != after.harness) == (side in ("harness", "both"))
    assert (before.reward != after.reward) == (side in ("reward", "both"))


def test_an_escaping_self_ties_the_reward_to_all_of_the_module(prints):
    handed_on = [("facts.py", "return points(", "return repr(self) + points(")]
    before, after = prints(handed_on), prints([*handed_on, ("facts.py", "Be brief.", "Be very brief.")])
    assert before.reward != after.reward


def test_state_that_a_tool_leaves_belongs_to_the_reward_that_reads_it(prints):
    leaves = [("facts.py", "return tools.look", "self.seen = 1; return tools.look")]
    reads = [("facts.py", "+ self.inherited_by_reward()", "+ self.seen")]
    edit = [("tools.py", "+ x", "- x")]
    assert prints([*leaves, *edit]).reward == prints(leaves).reward
    assert prints([*leaves, *reads, *edit]).reward != prints([*leaves, *reads]).reward


def test_arguments_count_for_both_and_places_for_neither(prints):
    first, wider = prints(), prints(kwargs={"width": 2})
    assert first == prints()  # another folder
    assert first.harness != wider.harness
    assert first.reward != wider.reward
    assert first.harness != first.reward


def test_files_that_arguments_name_count_for_both(prints, tmp_path):
    (tmp_path / "corpus.txt").write_text("one")
    kwargs = {"width": 2, "places": [str(tmp_path / "corpus.txt")]}
    init = [("facts.py", "def __init__(self, width=1)", "def __init__(self, width=1, places=())")]
    before = prints(init, kwargs)
    assert before == prints(init, kwargs)
    (tmp_path / "corpus.txt").write_text("two")
    after = prints(init, kwargs)
    assert before.harness != after.harness
    assert before.reward != after.reward


def test_arguments_must_be_json():
    with pytest.raises(EnvironmentSetupError, match="not JSON"):
        environment_fingerprints(GSM8K(), "rlft.environments.gsm8k:GSM8K", {"a": object()})


def test_data_counts_for_both(monkeypatch):
    def both():
        return environment_fingerprints(GSM8K(), "rlft.environments.gsm8k:GSM8K", {})

    before = both()
    monkeypatch.setattr(GSM8K, "data_fingerprint", lambda self: "corpus 2")
    assert before.harness != both().harness
    assert before.reward != both().reward


def test_a_class_made_inside_a_function_counts_whole():
    class Local(GSM8K):
        pass

    code = environment_code(Local)
    for side in (code.harness, code.reward):
        assert "class Local" in side
        assert "def test_code_fingerprint_follows_imports" in side


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder that stands for rlft, and a function that writes a module into it."""
    monkeypatch.setattr(sources, "RLFT_FOLDER", tmp_path)

    def write(module, text):
        path = tmp_path / (module.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("__init__", "from rlft.base import Env\n")
    write("base", "class Env: pass\n")
    write("a", "from typing import TYPE_CHECKING\nfrom rlft.sub import b\nif TYPE_CHECKING:\n    import rlft.types\n")
    write("sub.__init__", "from . import heavy\n")
    write("sub.b", "from .c import x\ndef f():\n    import rlft.late\n")
    write("sub.c", "x = 1\n")
    write("sub.heavy", "y = 1\n")
    write("late", "z = 1\n")
    write("types", "T = int\n")
    write("user", "import rlft\n")
    return write


@pytest.mark.parametrize(
    ("module", "edited", "counts"),
    [
        ("rlft.a", "a", True),
        ("rlft.a", "sub.b", True),
        ("rlft.a", "sub.c", True),  # relative import, two steps away
        ("rlft.a", "late", True),  # imported in a function
        ("rlft.a", "types", False),  # for the type checker only
        ("rlft.a", "sub.heavy", False),  # the package's __init__ imports it, nobody imports from there
        ("rlft.a", "base", False),
        ("rlft.user", "base", True),  # through rlft's __init__
        ("rlft.user", "sub.c", False),
    ],
)
def test_code_fingerprint_follows_imports(package, module, edited, counts):
    before = code_fingerprint(module)
    package(edited, "# only a comment\nanswer = 42\n")
    assert (code_fingerprint(module) != before) == counts


def test_code_fingerprint_refuses_what_is_no_module():
    with pytest.raises(ModuleNotFoundError, match=r"no module 'rlft\.nothing'"):
        code_fingerprint("rlft.nothing")


def test_every_module_of_rlft_has_a_fingerprint():
    names = [
        ".".join(("rlft", *path.relative_to(sources.RLFT_FOLDER).with_suffix("").parts))
        for path in sources.RLFT_FOLDER.rglob("*.py")
        if path.name != "__init__.py"
    ]
    assert "rlft.environments.contract.base" in names
    assert len(code_fingerprint(*names)) == 64


def test_shipped_environments_keep_reward_and_harness_apart():
    code = environment_code(GSM8K)
    assert "Solve the problem" in code.harness
    assert "Solve the problem" not in code.reward
    assert "def declared_number" in code.reward
    assert "def declared_number" not in code.harness


MARKED = '''
import rlft


class Mine(rlft.BaseEnv):
    @rlft.tool
    def look(self, key: str) -> str:
        """Look it up.

        Args:
            key: What.
        """
        return key + "!"

    @rlft.reward
    def right(self, text, ground_truth):
        return float(text == ground_truth)

    def gold_completion(self, task):
        return self.look(task.answer)
'''


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ('+ "!"', '+ "?"', (True, True)),  # gold uses the tool, so both sides do
        ("Look it up.", "Look it up twice.", (True, True)),  # the model reads it
        ("key: What.", "key: Which.", (True, True)),
        ("text == ground", "text != ground", (False, True)),
    ],
)
def test_a_tool_is_sampled_anew_when_its_code_or_its_text_changes(tmp_path, old, new, changes):
    def prints(text, name):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "mine.py"
        path.write_text(text)
        return environment_fingerprints(load_environment(f"{path}:Mine", {}), f"{path}:Mine", {})

    assert old in MARKED
    before, after = prints(MARKED, "before"), prints(MARKED.replace(old, new), "after")
    assert (before.harness != after.harness, before.reward != after.reward) == changes


TOLD = '''
"""You answer questions."""
import rlft
from pydantic import BaseModel


class Arguments(BaseModel):
    """Which article."""

    title: str


class Told(rlft.BaseEnv):
    """Be quick."""

    def context(self, task):
        return __doc__ + type(self).__doc__

    async def read(self, title):
        """Read an article."""
        return title

    async def list_tools(self):
        schema = Arguments.model_json_schema()
        return [{"name": "read", "description": self.read.__doc__, "parameters": schema}]

    async def run_tool(self, rollout_id, tool_name, **args):
        return await self.read(**args)

    async def compute_reward(self, completion, ground_truth):
        return {"right": float(completion.text == ground_truth)}
'''


@pytest.mark.slow
@pytest.mark.parametrize("text", ["You answer questions.", "Which article.", "Be quick.", "Read an article."])
def test_a_docstring_that_becomes_a_tool_or_a_prompt_is_sampled_anew(tmp_path, text):
    def harness(source, name):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "told.py"
        path.write_text(source)
        return environment_fingerprints(load_environment(f"{path}:Told", {}), f"{path}:Told", {}).harness

    assert text in TOLD
    before = harness(TOLD, "before")
    assert before == harness(TOLD, "again")
    assert before != harness(TOLD.replace(text, "Another text."), "after")


@pytest.mark.slow
def test_several_environments_have_the_fingerprints_of_all():
    def prints(name="one", **kwargs):
        named = {
            name: {"name": "tests.rlft.several:Sums", "kwargs": {}},
            "two": {"name": "rlft.environments.calculator:Calculator", "kwargs": kwargs},
        }
        environment = load_environment(SEVERAL, {"members": named})
        return environment_fingerprints(environment, SEVERAL, {"members": named})

    found, other = prints(), prints(shown_with_tool=0.5)
    assert found == prints()
    assert found.harness != other.harness
    assert found.reward != other.reward
    assert found != prints("other")
    alone = load_environment("rlft.environments.calculator:Calculator", {})
    assert found != environment_fingerprints(alone, "rlft.environments.calculator:Calculator", {})
