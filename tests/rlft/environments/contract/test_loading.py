import re
import sys
import traceback

import pytest

from rlft.environments.contract.loading import load_environment, load_function
from rlft.environments.fingerprints import environment_fingerprints
from rlft.environments.gsm8k import GSM8K
from rlft.errors import ConfigError, EnvironmentSetupError

GOOD = """
from rlft import BaseEnv

class Capitals(BaseEnv):
    def __init__(self, strict: bool = False):
        if strict == "maybe":
            raise ValueError("strict is a yes or a no")
        self.strict = strict

    async def compute_reward(self, completion, ground_truth):
        return {"exact": float(completion.text == ground_truth)}

class Unpaid(BaseEnv):
    pass

class Other:
    pass
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "capitals.py").write_text(GOOD)
    return tmp_path


def test_loads_a_module_and_a_file(folder):
    assert isinstance(load_environment("rlft.environments.gsm8k:GSM8K", {"final_answer_form": "boxed"}), GSM8K)
    (folder / "my_capitals_module.py").write_text(GOOD)
    for name in ("deep/capitals.py:Capitals", "my_capitals_module:Capitals"):
        assert vars(load_environment(name, {"strict": True}))["strict"] is True


def test_a_file_may_import_what_lies_beside_it_and_in_the_working_directory(folder):
    (folder / "deep" / "beside_it.py").write_text("A = 1")
    (folder / "at_the_top.py").write_text("B = 2")
    (folder / "deep" / "env.py").write_text("from at_the_top import B\nfrom beside_it import A\n" + GOOD)
    assert type(load_environment("deep/env.py:Capitals", {})).__name__ == "Capitals"


def test_a_changed_file_is_loaded_anew(folder):
    first = load_environment("deep/capitals.py:Capitals", {})
    assert type(load_environment("deep/capitals.py:Capitals", {})) is type(first)
    (folder / "deep" / "capitals.py").write_text(GOOD.replace("self.strict = strict", "self.strict = 7"))
    assert vars(load_environment("deep/capitals.py:Capitals", {}))["strict"] == 7


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("capitals", {}, "does not name a class"),
        ("no_such_module:Capitals", {}, "no module named 'no_such_module'.*check the spelling"),
        ("rlft.environments.gsmk:GSM8K", {}, "no module named 'rlft.environments.gsmk'"),
        ("deep/missing.py:Capitals", {}, "there is no file .*missing.py"),
        ("deep/capitals.py:Capitols", {}, "no environment 'Capitols'.*there: .*Capitals"),
        ("deep/capitals.py:Other", {}, "no environment 'Other'.*derives from rlft.BaseEnv"),
        ("deep/capitals.py:Unpaid", {}, "Unpaid does not say.*define compute_reward"),
        ("deep/capitals.py:Capitals", {"strikt": 1}, r"unexpected keyword argument 'strikt'.*Capitals\(strict: bool"),
        ("deep/capitals.py:Capitals", {"strict": "maybe"}, "ValueError: strict is a yes or a no"),
        (
            "deep/broken.py:Capitals",
            {},
            r"its import failed: ZeroDivisionError: division by zero\n  deep/broken.py:2: 1 / 0\n",
        ),
        ("deep/needy.py:Capitals", {}, "its import failed.*install no_such_package"),
        ("deep/taken.py:Capitals", {}, "No module named 'steps.lookup'.*rename your folder steps/: rlft has a package"),
    ],
)
def test_says_what_is_wrong_and_what_to_do(folder, name, kwargs, message):
    (folder / "deep" / "broken.py").write_text("\n1 / 0\n")
    (folder / "deep" / "needy.py").write_text("import no_such_package\n")
    (folder / "deep" / "taken.py").write_text("from steps.lookup import lookup\n")
    with pytest.raises(EnvironmentSetupError) as caught:
        load_environment(name, kwargs)
    assert re.search(message, str(caught.value), re.DOTALL), str(caught.value)


@pytest.mark.parametrize("form", ["deep/{}.py:Capitals", "deep.{}:Capitals"])
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("parted", "import rlft\n\n\ndef right(text)\n    return 1.0\n",
         "SyntaxError: expected ':'\n  deep/parted.py:4: def right\\(text\\)\n  what to do: mend this line"),
        ("pushed", "import rlft\n\tx = 1\n", "IndentationError: unexpected indent\n  deep/pushed.py:2: x = 1\n"),
        ("asking", "import rlft\n\nfrom rlft import Environment\n",
         ".*cannot import name 'Environment' from 'rlft'.*\n  deep/asking.py:3: from rlft import Environment\n"),
        ("reading", "import json\n\nROWS = json.loads('{')\n",
         "JSONDecodeError: .*\n  deep/reading.py:3: ROWS = json.loads\\('{'\\)\n"),
        ("leaving", "import sys\nsys.exit(3)\n", "SystemExit: 3\n  deep/leaving.py:2: sys.exit\\(3\\)\n"),
        ("leading", "from deep.parts import x\n", "SyntaxError: invalid syntax\n  deep/parts.py:1: def x\\(:\n"),
        ("steering", "x = '\x1b[31m'; 1 / 0\n",
         "ZeroDivisionError.*\n  deep/steering.py:1: x = '\\\\x1b\\[31m'; 1 / 0\n"),
        ("telling", "K = {'api_key': 'sk-aaaaBBBBcccc1234567890'}['x']\n",
         "KeyError: 'x'\n  deep/telling.py:1: K = {'api_key': '\\*\\*\\*'}\\['x'\\]\n"),
        ("torn", "x = 1\0\n", "SyntaxError: source code .* null bytes.*what to do: mend"),
    ],
)  # fmt: skip
def test_an_import_that_fails_names_the_users_line(folder, form, name, text, said):
    (folder / "deep" / f"{name}.py").write_text(text)
    (folder / "deep" / "parts.py").write_text("def x(:\n    pass\n")
    with pytest.raises(EnvironmentSetupError) as caught:
        load_environment(form.format(name), {})
    assert re.search(f"its import failed: {said}", str(caught.value), re.DOTALL), str(caught.value)
    assert "frozen" not in str(caught.value)


CARELESS = """
import rlft

class Careless(rlft.BaseEnv):
    def __init__(self, headers, fails=False, cause=None):
        self.headers = headers
        if fails:
            raise ValueError(f"cannot connect with {headers}")
        if cause == "rlft":
            raise rlft.errors.EnvironmentSetupError(f"not {headers}", where="here", fix=f"ask {headers['key']}")
        if cause == "deep":
            try:
                raise OSError(f"inner {headers['key']}")
            except OSError as error:
                raise RuntimeError("outer") from error

    async def compute_reward(self, completion, ground_truth):
        return {"correct": 1.0}
"""


@pytest.fixture
def careless(tmp_path, monkeypatch):
    monkeypatch.setenv("RLFT_TEST_CARELESS", "Vq3'/+careless")
    monkeypatch.delenv("RLFT_TEST_UNSET", raising=False)
    (tmp_path / "careless.py").write_text(CARELESS)
    return f"{tmp_path / 'careless.py'}:Careless"


def test_variables_become_their_values_in_the_constructor_alone(careless):
    kwargs = {"headers": {"key": "env:RLFT_TEST_CARELESS", "Authorization": "Bearer {env:RLFT_TEST_CARELESS}"}}
    environment = load_environment(careless, kwargs)
    assert environment.headers == {"key": "Vq3'/+careless", "Authorization": "Bearer Vq3'/+careless"}
    assert kwargs["headers"]["key"] == "env:RLFT_TEST_CARELESS"


@pytest.mark.slow
def test_a_fingerprint_knows_the_name_of_a_variable_and_not_its_value(careless, monkeypatch):
    kwargs = {"headers": {"key": "env:RLFT_TEST_CARELESS"}}

    def prints():
        return environment_fingerprints(load_environment(careless, kwargs), careless, kwargs)

    before = prints()
    monkeypatch.setenv("RLFT_TEST_CARELESS", "another value")
    assert prints() == before


@pytest.mark.parametrize("how", [{"fails": True}, {"cause": "rlft"}, {"cause": "deep"}])
def test_what_a_constructor_raises_holds_no_value(careless, how):
    with pytest.raises(EnvironmentSetupError) as error:
        load_environment(careless, {"headers": {"key": "env:RLFT_TEST_CARELESS"}, **how})
    trace = "".join(traceback.format_exception(error.value))
    assert "***" in trace
    assert "Vq3" not in trace


def test_a_variable_that_is_not_set_is_named_before_the_import(careless):
    with pytest.raises(ConfigError, match=r"environment\.kwargs\.headers\.key needs the variable RLFT_TEST_UNSET"):
        load_environment("nowhere:Thing", {"headers": {"key": "env:RLFT_TEST_UNSET"}})


@pytest.mark.parametrize("name", ["builtins:eval", "os:system", f"{re.__file__}:compile", "pytest:fail"])
def test_a_function_of_python_or_of_an_installed_package_scores_no_attempts(folder, name):
    with pytest.raises(EnvironmentSetupError, match=r"(?s)is code of Python itself or.*write a function of your own"):
        load_function(name, "reward.spec", own=True)
    assert callable(load_function(name, "reward.spec").call)


def test_functions_of_rlft_and_of_the_user_score_attempts(folder):
    (folder / "own_scores.py").write_text("def f(value, item): return 1.0")
    for name in ("own_scores:f", "own_scores.py:f", "rlft.rewards.graders.plain:plain"):
        assert callable(load_function(name, "reward.spec", own=True).call)
