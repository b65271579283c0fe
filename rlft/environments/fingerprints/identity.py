"""Hashes of code, for cache keys: the same fingerprint means that the same code would run.

Both functions read files as they are now, without importing them. Comments and layout do not count, nor do docstrings
of rlft's own modules; those of anyone else's do, as a model may read them (`__doc__`, the schema of a pydantic model).
Code that is found only at run time (`importlib.import_module`, entry points) is not seen; installed libraries count by
name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import constructed_modules
from rlft.environments.contract.marks import marked_tools
from rlft.environments.contract.several import Several, without_specification, written_class
from rlft.environments.fingerprints.analysis import environment_code, module_code
from rlft.environments.fingerprints.sources import Library
from rlft.errors import EnvironmentSetupError
from rlft.files import file_hash, named_files


@dataclass(frozen=True, slots=True)
class EnvironmentFingerprints:
    """Two hashes (sha256, hexadecimal): a new `harness` means sampling again, a new `reward` only scoring again."""

    harness: str
    reward: str


def code_fingerprint(*modules: str) -> str:
    """Return a hash (sha256, hexadecimal) of these `rlft` modules and of every `rlft` module that they import.

    Imports inside functions count, those under `if TYPE_CHECKING` do not. Raises `ModuleNotFoundError` for a name that
    is no module of rlft.
    """
    library = Library()
    for module in modules:
        if library.find(module) is None:
            raise ModuleNotFoundError(f"code_fingerprint: rlft has no module {module!r}", name=module)
    return _digest({name: code for name, code in library.closure(modules).items() if library.find(name)})


def environment_fingerprints(environment: BaseEnv, name: str, kwargs: Mapping[str, Any]) -> EnvironmentFingerprints:
    """Return hashes of an environment's two sides, so that after an edit of the reward nothing is sampled again.

    Both cover the class's name, `kwargs`, the bytes of files that these name and the code of the objects they make
    (`contract.loading.construct`), `data_fingerprint()`, `__init__` and the class's attributes. `reward`
    covers `reward_fingerprint()` and the code that `compute_reward`, `final_answer`, `gold_completion` and the other
    methods of `analysis.REWARD_METHODS` lead to, `harness` that of all other methods; code that both
    use is in both. `name` is the import path or file and class of the config; where the file lies does not matter.

    Where the reward is a specification, only `reward` changes with it. Those of several environments are made of each
    member's.

    What a model reads of marked tools (docstrings, types) belongs to `harness`.

    Raises `EnvironmentSetupError` for arguments that are not JSON and for a class without a source file.
    """
    if isinstance(environment, Several):
        named = kwargs["members"]
        found = {each: environment_fingerprints(one, **named[each]) for each, one in environment.members.items()}
        return EnvironmentFingerprints(
            harness=_digest({each: prints.harness for each, prints in found.items()}),
            reward=_digest({each: prints.reward for each, prints in found.items()}),
        )
    kwargs = without_specification(kwargs)  # which is the reward's alone: `reward_fingerprint` has it
    try:
        arguments = json.dumps(kwargs, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise EnvironmentSetupError(
            f"the arguments are not JSON: {error}",
            where="environment.kwargs",
            fix="use text, numbers, booleans, lists and maps",
        ) from error
    data = [environment.data_fingerprint(), *(file_hash(path) for path in named_files(kwargs))]
    shared = {"class": name.rpartition(":")[2], "kwargs": arguments, "data": json.dumps(data)}
    shared |= {f"made {place}": module_code(module) for place, module in enumerate(constructed_modules(kwargs))}
    code = environment_code(written_class(environment))
    return EnvironmentFingerprints(
        harness=_digest({**shared, "code": code.harness, "tools": _descriptions(environment)}),
        reward=_digest({**shared, "code": code.reward, "named": environment.reward_fingerprint()}),
    )


def _digest(content: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _descriptions(environment: BaseEnv) -> str:
    """Return the schemas of the marked tools, which a model reads."""
    return json.dumps([spec.to_json() for spec in marked_tools(environment)], sort_keys=True, default=str)
