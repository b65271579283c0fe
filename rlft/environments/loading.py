"""An environment from its name in the config: `package.module:Class` or `path/to/file.py:Class`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from rlft.environments.base import BaseEnv
from rlft.environments.marks import marked_weights
from rlft.errors import EnvironmentSetupError, RlftError


def load_environment(name: str, kwargs: dict[str, Any]) -> BaseEnv:
    """Import the class that `name` names and build it with `kwargs`.

    A module is looked for in the working directory first; a file may also import what lies beside it. A file is loaded
    anew when its text has changed. Raises `EnvironmentSetupError` that says what is wrong and what to do.
    """
    location, _, class_name = name.rpartition(":")
    if not location or not class_name.isidentifier():
        raise EnvironmentSetupError(
            f"{name!r} does not name a class",
            where="environment.name",
            fix="write package.module:Class or path/to/file.py:Class",
        )
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    module = _load_file(location) if location.endswith(".py") else _load_module(location)
    return _build(_find_class(module, class_name, location), kwargs)


def _load_module(location: str) -> ModuleType:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(location)
    except ModuleNotFoundError as error:
        if error.name and (location == error.name or location.startswith(error.name + ".")):
            raise EnvironmentSetupError(
                f"no module named {error.name!r}",
                where=f"environment.name: {location}",
                fix=f"check the spelling, run from the folder that holds it ({Path.cwd()} is searched), or give the "
                "file: path/to/file.py:Class",
            ) from error
        raise _import_failed(location, error) from error
    except Exception as error:
        raise _import_failed(location, error) from error


def _load_file(location: str) -> ModuleType:
    path = Path(location).expanduser().resolve()
    if not path.is_file():
        raise EnvironmentSetupError(
            f"there is no file {path}",
            where=f"environment.name: {location}",
            fix="give the path from the working directory, or an absolute one",
        )
    digest = hashlib.sha256(str(path).encode() + b"\0" + path.read_bytes()).hexdigest()[:12]
    module_name = f"rlft_file_{path.stem}_{digest}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:  # pragma: no cover - only for suffixes other than .py
        raise EnvironmentSetupError(f"{path} is no Python file", where=f"environment.name: {location}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        raise _import_failed(location, error) from error
    return module


def _import_failed(location: str, error: Exception) -> EnvironmentSetupError:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (line {frames[-1].lineno} of {frames[-1].filename})" if frames else ""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    return EnvironmentSetupError(
        f"its import failed: {type(error).__name__}: {error}{place}",
        where=f"environment.name: {location}",
        fix=f"install {missing}, or remove its import" if missing else "mend the module; it must import by itself",
    )


def _find_class(module: ModuleType, class_name: str, location: str) -> type[BaseEnv]:
    where = f"environment.name: {location}"
    found = getattr(module, class_name, None)
    if found is None:
        environments = [key for key, value in vars(module).items() if _is_environment(value)]
        close = get_close_matches(class_name, environments, cutoff=0.5) or environments
        hint = f"did you mean {' or '.join(close)}?" if close else "define a class there that derives from rlft.BaseEnv"
        raise EnvironmentSetupError(f"there is no class {class_name!r}", where=where, fix=hint)
    if not _is_environment(found):
        raise EnvironmentSetupError(
            f"{class_name} is no environment",
            where=where,
            fix=f"derive it from rlft.BaseEnv: class {class_name}(rlft.BaseEnv)",
        )
    if found.compute_reward is BaseEnv.compute_reward and not marked_weights(found):
        raise EnvironmentSetupError(
            f"{class_name} does not say what an attempt is worth",
            where=where,
            fix="define compute_reward(self, completion, ground_truth) and return {part: score}, or mark a method "
            "with @rlft.reward()",
        )
    return found


def _is_environment(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseEnv) and value is not BaseEnv


def _build(environment_class: type[BaseEnv], kwargs: dict[str, Any]) -> BaseEnv:
    where, signature = "environment.kwargs", inspect.signature(environment_class)
    try:
        signature.bind(**kwargs)
    except TypeError as error:
        raise EnvironmentSetupError(
            f"{environment_class.__name__} cannot be built: {error}",
            where=where,
            fix=f"its arguments are {environment_class.__name__}{signature}",
        ) from error
    try:
        return environment_class(**kwargs)
    except RlftError:
        raise
    except Exception as error:
        raise EnvironmentSetupError(
            f"{environment_class.__name__} cannot be built: {type(error).__name__}: {error}",
            where=where,
            fix=f"check the values; its arguments are {environment_class.__name__}{signature}",
        ) from error
