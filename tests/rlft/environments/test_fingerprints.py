import sys
from itertools import count

import pytest

from rlft.config.section import SEVERAL
from rlft.environments import fingerprints
from rlft.environments.contract.loading import load_environment
from rlft.environments.fingerprints import code_fingerprint, environment_code, environment_fingerprints
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

    def prints_of(edits=None, kwargs=None, name="facts.py"):
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

    yield prints_of
    for module in ("scores", "tools", "deeper"):
        sys.modules.pop(module, None)


EDITS = [
    ("reward", [("facts.py", "shorten(completion.text)", "completion.text")]),
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
    ("both", [("facts.py", "LIMIT = 5", "LIMIT = 6")]),
    ("both", [("facts.py", "return 2", "return 3")]),  # an inherited method: who calls it is not followed
    ("both", [("scores.py", "len(text)", "len(text) + 1")]),  # a module beside it
    ("both", [("deeper.py", "VALUE = 1", "VALUE = 2")]),  # what that imports
    ("both", [("facts.py", "Be brief.", "Be very brief.")]),
    ("both", [("deeper.py", "VALUE = 1", '"""Numbers."""\nVALUE = 1')]),  # a docstring may be what a model reads
    ("neither", [("facts.py", "  # a comment", "")]),
    ("neither", [("facts.py", "LIMIT = 5", "LIMIT   =   5\n\n\n")]),
]


@pytest.mark.parametrize(("side", "edits"), EDITS)
def test_an_edit_changes_the_side_it_belongs_to(prints, side, edits):
    before, after = prints(), prints(edits)
    assert (before.harness != after.harness) == (side == "both")
    assert (before.reward != after.reward) == (side in ("reward", "both"))


@pytest.mark.parametrize("call", ["await self.compute_reward(x, y)", "await getattr(self, 'compute_reward')(x, y)"])
def test_a_reward_that_a_tool_calls_belongs_to_the_harness_too(prints, call):
    calls = [("facts.py", "return tools.look(self.inherited())", f"return {call}")]
    edit = [("facts.py", "shorten(completion.text)", "completion.text")]
    assert prints([*calls, *edit]).harness != prints(calls).harness


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


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder that stands for rlft, and a function that writes a module into it."""
    monkeypatch.setattr(fingerprints, "RLFT_FOLDER", tmp_path)

    def write(module, text):
        path = tmp_path / (module.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write("__init__", "from rlft.base import Env\n")
    write("base", "class Env: pass\n")
    write("a", "from rlft.sub import b\n")
    write("sub.__init__", "from . import heavy\n")
    write("sub.b", "from .c import x\ndef f():\n    import rlft.late\n")
    write("sub.c", "x = 1\n")
    write("sub.heavy", "y = 1\n")
    write("late", "z = 1\n")
    write("user", "import rlft\n")
    return write


@pytest.mark.parametrize(
    ("module", "edited", "counts"),
    [
        ("rlft.a", "a", True),
        ("rlft.a", "sub.b", True),
        ("rlft.a", "sub.c", True),  # relative import, two steps away
        ("rlft.a", "late", True),  # imported in a function
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
        ".".join(("rlft", *path.relative_to(fingerprints.RLFT_FOLDER).with_suffix("").parts))
        for path in fingerprints.RLFT_FOLDER.rglob("*.py")
        if path.name != "__init__.py"
    ]
    assert "rlft.environments.contract.base" in names
    assert len(code_fingerprint(*names)) == 64


def test_shipped_environments_keep_the_reward_out_of_the_harness():
    harness, reward = environment_code(GSM8K)
    assert harness.count("def compute_reward") == reward.count("def compute_reward") - 1  # of BaseEnv alone
    assert "Solve the problem" in harness


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
