"""Loads environments and functions by the names that a config gives them: `package.module:Class` or
`path/to/file.py:function`.

Also keeps the worker processes of an environment, which last as long as it does, and makes it again in them.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

from rlft.config.environment import Isolation, Workers
from rlft.config.section import SEVERAL, SPECIFICATION
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.faults import described, is_users, place_of
from rlft.environments.contract.marks import marked_weights
from rlft.environments.contract.several import MAKER, Several, without_specification
from rlft.environments.workers.pool import Pool, Program
from rlft.errors import ConfigError, EnvironmentSetupError, RlftError
from rlft.files import OWN_PACKAGES, expanded, why_no_file
from rlft.texts.secrets import hide, hide_in, hide_in_output, redact, require, resolve
from rlft.types import Task

_TARGET = "_target_"  # Hydra's name for it: https://hydra.cc/docs/advanced/instantiate_objects/overview/

SOURCE = "_rlft_source"
"""The attribute of a loaded environment that holds its `Source`, under a name that no subclass uses."""


@dataclass(frozen=True, slots=True)
class Source:
    """Holds what an environment was loaded from, so that a worker process can load it, too.

    `kwargs` has the names of variables and not their values. The name of `module` holds a hash of a file's text.
    """

    name: str
    kwargs: dict[str, Any]
    folder: Path
    module: str


@dataclass(frozen=True, slots=True)
class LoadedFunction:
    """Holds a function, its name in the config (the part after the colon), and the module it was found in."""

    name: str
    call: Callable[..., Any]
    module: ModuleType


def load_environment(name: str, kwargs: dict[str, Any]) -> BaseEnv:
    """Import the class that `name` names and build it with `kwargs`; objects among these are made first (`construct`).

    A module is looked for in the working directory first; a file may also import what lies beside it. A file is loaded
    anew when its text has changed. A text `env:NAME` within `kwargs` is replaced by the value of that environment
    variable only here, so that no config, artifact or log holds it. With a specification among `kwargs` that is the
    environment's reward (`several`). The members of several environments are loaded one by one. Raises
    `EnvironmentSetupError` that says what is wrong and what to do, and `ConfigError` for a variable that is not set.
    """
    if name == SEVERAL:
        return Several({member: load_environment(**named) for member, named in kwargs["members"].items()})
    arguments = without_specification(kwargs)
    require(arguments, "environment.kwargs")  # fails on an unset variable before an import that may take long
    named = Name.read(name, "environment.name", "Class")
    read, folder = resolve(arguments, "environment.kwargs"), Path.cwd()
    with chdir(folder):  # wherever its import and constructor go
        found = _with_reward(_find_class(import_named(named), named), named, kwargs.get(SPECIFICATION))
        environment = _build(found, read)
    environment.__dict__[SOURCE] = Source(name, kwargs, folder, type(environment).__module__)
    return environment


def construct(value: Any) -> Any:
    """Return a copy of nested lists and maps in which objects replace the maps that have a key `_target_`.

    The object is what the class or function named by `_target_` returns when it is called with the map's other keys,
    as in Hydra: `{_target_: my_client.py:Client, url: http://localhost:8000}`. Inner objects are made first. Raises
    `EnvironmentSetupError` for a name that cannot be imported, and what is raised where an object is made.
    """
    if isinstance(value, list):
        return [construct(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    arguments = {key: construct(each) for key, each in value.items() if key != _TARGET}
    return _target(value).call(**arguments) if _TARGET in value else arguments


def constructed_modules(value: Any) -> Iterator[ModuleType]:
    """Yield the modules of the classes and functions that `construct` would call for a value, in its order."""
    for each in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from constructed_modules(each)
    if isinstance(value, Mapping) and _TARGET in value:
        yield _target(value).module


def _target(value: Mapping[str, Any]) -> LoadedFunction:
    return load_function(str(value[_TARGET]), f"environment.kwargs: {_TARGET}")


def load_function(name: str, setting: str, *, own: bool = False) -> LoadedFunction:
    """Import the function, class or other callable that `name` names, as `load_environment` imports a class.

    `setting` is where the name stands in the config. With `own` it must be rlft's or the user's own code. Raises
    `EnvironmentSetupError` if it is not there, cannot be imported or cannot be called.
    """
    named = Name.read(name, setting, "function")
    module = import_named(named)
    if own and not (module.__name__.startswith("rlft.") or is_users(getattr(module, "__file__", None) or "<built in>")):
        raise EnvironmentSetupError(
            f"{named.location} is code of Python itself or of an installed package, which scores no attempts",
            where=named.where,
            fix="write a function of your own that calls it, and name that: path/to/file.py:function",
        )
    found = getattr(module, named.attribute, None)
    if not callable(found):
        there = ", ".join(key for key, value in vars(module).items() if inspect.isfunction(value)) or "none"
        raise EnvironmentSetupError(
            f"there is no function {named.attribute!r}", where=named.where, fix=f"name one that is there: {there}"
        )
    return LoadedFunction(named.attribute, found, module)


def _find_class(module: ModuleType, named: Name) -> type[BaseEnv]:
    where, class_name = named.where, named.attribute
    found: Any = getattr(module, class_name, None)
    if not _is_environment(found):
        there = ", ".join(key for key, value in vars(module).items() if _is_environment(value)) or "none"
        raise EnvironmentSetupError(
            f"there is no environment {class_name!r}",
            where=where,
            fix=f"name a class that derives from rlft.BaseEnv; there: {there}",
        )
    return found


def _with_reward(found: type[BaseEnv], named: Name, specification: str | None) -> type[BaseEnv]:
    """Return the class with the reward that a specification describes, or as it is.

    The text is empty where attempts are made and not scored.
    """
    if specification is not None:
        return load_function(MAKER, "reward.spec").call(found, specification) if specification else found
    if found.compute_reward is BaseEnv.compute_reward and not marked_weights(found):
        raise EnvironmentSetupError(
            f"{named.attribute} does not say what an attempt is worth",
            where=named.where,
            fix="define compute_reward(self, completion, ground_truth) and return {part: score}, mark a method "
            "with @rlft.reward(), or write a specification (reward.spec)",
        )
    return found


def _is_environment(value: Any) -> TypeGuard[type[BaseEnv]]:
    return isinstance(value, type) and issubclass(value, BaseEnv) and value is not BaseEnv


def _build(environment_class: type[BaseEnv], kwargs: dict[str, Any]) -> BaseEnv:
    try:
        return environment_class(**construct(kwargs))
    except RlftError as error:
        hide_in(error)
        raise
    except Exception as error:
        hide_in(error)
        shows_no_secret = hide(str(error)) == str(error)
        signature = inspect.signature(environment_class)
        raise EnvironmentSetupError(
            f"{environment_class.__name__} cannot be built: {described(error)}",
            where="environment.kwargs",
            fix=f"its arguments are {environment_class.__name__}{signature}",
        ) from (error if shows_no_secret else None)  # a cause's text is printed with the trace


@dataclass(frozen=True, slots=True)
class Name:
    """Holds the parts of a setting's text `location:attribute`, the setting that it stands in, and what it names.

    `location` is a module or the path of a `.py` file. `kind` is `Class` or `function`, for the messages of errors.
    """

    location: str
    attribute: str
    setting: str
    kind: str

    @classmethod
    def read(cls, name: str, setting: str, kind: str) -> Name:
        """Split a name into its parts. Raises EnvironmentSetupError, which shows the form, for text that is no name."""
        location, _, attribute = name.rpartition(":")
        if not location or not attribute.isidentifier():
            raise EnvironmentSetupError(
                f"{name!r} does not name a {kind.lower()}",
                where=setting,
                fix=f"write package.module:{kind} or path/to/file.py:{kind}",
            )
        return cls(location, attribute, setting, kind)

    @property
    def where(self) -> str:
        """The place that an error names: the setting and the location in it."""
        return f"{self.setting}: {self.location}"


def import_named(named: Name) -> ModuleType:
    """Import and return the module of a name. Raises EnvironmentSetupError with the line of the user's that failed.

    The working directory is searched first. A file is imported under a name made of its path and content, so that
    changed text is loaded anew; what lies beside it can be imported too.
    """
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    importlib.invalidate_caches()  # the file may have been written since Python last listed its folder
    location = named.location
    try:
        return _import_file(named) if location.endswith(".py") else importlib.import_module(location)
    except RlftError:
        raise
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{location}.".startswith(f"{missing}."):
            raise EnvironmentSetupError(
                f"no module named {missing!r}",
                where=named.where,
                fix=f"check the spelling, run from the folder that holds it ({Path.cwd()} is searched), or give the "
                f"file: path/to/file.py:{named.kind}",
            ) from error
        raise _import_failed(named, error) from error


def _import_file(named: Name) -> ModuleType:
    path = expanded(named.location).absolute()
    if problem := why_no_file(path):
        raise EnvironmentSetupError(
            f"there is no file {path}: {problem}",
            where=named.where,
            fix="give the path from the working directory, or an absolute one",
        )
    path = path.resolve()
    digest = hashlib.sha256(str(path).encode() + b"\0" + path.read_bytes()).hexdigest()[:12]
    module_name = f"rlft_file_{path.stem}_{digest}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None  # of a file that ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # before it runs: dataclasses and pickle look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


def _import_failed(named: Name, error: BaseException) -> EnvironmentSetupError:
    place, line = place_of(error) or ("", "")
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    # The text of a SyntaxError names the file again, without its folder; its `msg` does not.
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    at = f"\n  {place}: {redact(line)}" if place else ""
    if missing and (taken := missing.partition(".")[0]) in OWN_PACKAGES:
        fix = f"rename your folder {taken}/: rlft has a package of that name, which is imported in its place"
    elif missing:
        fix = f"install {missing}, or remove its import"
    else:
        fix = f"mend {'this line' if place else 'the module'}; the module must import by itself"
    what = f"its import failed: {type(error).__name__}: {hide(said)}{at}"
    return EnvironmentSetupError(what, where=named.where, fix=fix)


_POOLS = "_rlft_pools"


def isolation_of(environment: BaseEnv, workers: Workers) -> Isolation:
    """Return where the environment's code runs: as the config says, else as the environment says."""
    return workers.isolation or environment.isolation


def pool_of(
    environment: BaseEnv, handler: str, options: dict[str, Any], workers: Workers, *, setting: str, processes: int
) -> Pool:
    """Return the worker processes that run `handler` with these options for an environment; the same ones again later.

    `setting` is the config's section that asks for them, `processes` their number if `workers` does not say it. Raises
    ConfigError for an environment that was not loaded by its name.
    """
    source: Source | None = environment.__dict__.get(SOURCE)
    if source is None:
        raise ConfigError(
            f"{type(environment).__name__} was made by a program, so a worker process cannot make it again",
            where=f"{setting}.isolation",
            fix="load it by its name (`load_environment`), or set isolation to thread",
        )
    payload = {"name": source.name, "kwargs": source.kwargs, "module": source.module, "options": options}
    number = workers.processes or processes
    key = json.dumps([handler, options, number, workers.memory_mib], sort_keys=True)
    pools: dict[str, Pool] = environment.__dict__.setdefault(_POOLS, {})
    if key not in pools:
        pools[key] = Pool(Program(handler, payload, source.folder, workers.memory_mib), number)
    return pools[key]


def environment_of(payload: dict[str, Any]) -> BaseEnv:
    """Make the environment again in a worker process. Raises EnvironmentSetupError as `load_environment` does."""
    hide_in_output()  # of this process, which the run passes on as it is; before the environment's code is imported
    environment = load_environment(payload["name"], payload["kwargs"])
    if type(environment).__module__ != payload["module"]:
        raise EnvironmentSetupError(
            "its file has changed since the run began",
            where=payload["name"],
            fix="start the run again, so that all of it is done by the same code",
        )
    environment.__dict__["isolation"] = "thread"  # this is the worker process
    return environment


def task_json(task: Task) -> dict[str, Any]:
    """Return a task as the JSON object from which `read_task` makes it again."""
    return {name: getattr(task, name) for name in Task.__dataclass_fields__}


def read_task(content: dict[str, Any]) -> Task:
    """Return the task of a JSON object."""
    return Task(**{**content, "prompt": tuple(content["prompt"])})
