import re
import sys

import pytest

from rlft.environments.gsm8k import GSM8K
from rlft.environments.loading import load_environment
from rlft.errors import EnvironmentSetupError

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
        assert vars(load_environment(name, {"strict": True})) == {"strict": True}


def test_a_file_may_import_what_lies_beside_it_and_in_the_working_directory(folder):
    (folder / "deep" / "beside_it.py").write_text("A = 1")
    (folder / "at_the_top.py").write_text("B = 2")
    (folder / "deep" / "env.py").write_text("from at_the_top import B\nfrom beside_it import A\n" + GOOD)
    assert type(load_environment("deep/env.py:Capitals", {})).__name__ == "Capitals"


def test_a_changed_file_is_loaded_anew(folder):
    first = load_environment("deep/capitals.py:Capitals", {})
    assert type(load_environment("deep/capitals.py:Capitals", {})) is type(first)
    (folder / "deep" / "capitals.py").write_text(GOOD.replace("self.strict = strict", "self.strict = 7"))
    assert vars(load_environment("deep/capitals.py:Capitals", {})) == {"strict": 7}


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("capitals", {}, "does not name a class"),
        ("no_such_module:Capitals", {}, "no module named 'no_such_module'.*check the spelling"),
        ("rlft.environments.gsmk:GSM8K", {}, "no module named 'rlft.environments.gsmk'"),
        ("deep/missing.py:Capitals", {}, "there is no file .*missing.py"),
        ("deep/capitals.py:Capitols", {}, "no class 'Capitols'.*did you mean Capitals"),
        ("deep/capitals.py:Other", {}, r"Other is no environment.*class Other\(rlft.BaseEnv\)"),
        ("deep/capitals.py:Unpaid", {}, "Unpaid does not say.*define compute_reward"),
        ("deep/capitals.py:Capitals", {"strikt": 1}, r"unexpected keyword argument 'strikt'.*Capitals\(strict: bool"),
        ("deep/capitals.py:Capitals", {"strict": "maybe"}, "ValueError: strict is a yes or a no"),
        ("deep/broken.py:Capitals", {}, r"its import failed: ZeroDivisionError.*line 2 of .*broken.py"),
        ("deep/needy.py:Capitals", {}, "its import failed.*install no_such_package"),
    ],
)
def test_says_what_is_wrong_and_what_to_do(folder, name, kwargs, message):
    (folder / "deep" / "broken.py").write_text("\n1 / 0\n")
    (folder / "deep" / "needy.py").write_text("import no_such_package\n")
    with pytest.raises(EnvironmentSetupError) as caught:
        load_environment(name, kwargs)
    assert re.search(message, str(caught.value), re.DOTALL), str(caught.value)
