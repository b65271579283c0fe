"""Imports the module that a name in the config means, `package.module:Class` or `path/to/file.py:Class`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import sysconfig
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from rlft.environments.contract.faults import place_of
from rlft.errors import EnvironmentSetupError
from rlft.files import OWN_PACKAGES, expanded, is_installed, why_no_file
from rlft.texts.secrets import hide, redact

_STANDARD = tuple(
    {
        place
        for name in ("stdlib", "platstdlib")
        for place in (sysconfig.get_path(name), os.path.realpath(sysconfig.get_path(name)))
    }
)


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
    return _load_file(named) if named.location.endswith(".py") else _load_module(named)


def check_own(named: Name) -> None:
    """Raise EnvironmentSetupError for code of Python itself or of an installed package other than rlft.

    Nothing is imported to find that out. `builtins:eval` would run what a model has written.
    """
    location = named.location
    if location.endswith(".py"):
        path = str(expanded(location).resolve())
        is_standard, is_other = path.startswith(_STANDARD), is_installed(Path(path))
    else:
        top = location.partition(".")[0]
        is_standard = top in sys.stdlib_module_names
        is_other = not is_standard and top != "rlft" and _is_installed_module(top)
    if is_standard or is_other:
        what = "Python itself" if is_standard and not is_other else "an installed package"
        raise EnvironmentSetupError(
            f"{location} is code of {what}, which was not written to score attempts",
            where=named.where,
            fix=f"write a function of your own that calls it, and name that: path/to/file.py:{named.kind}",
        )


def _is_installed_module(top: str) -> bool:
    try:
        spec = PathFinder.find_spec(top, [str(Path.cwd())]) or importlib.util.find_spec(top)
    except ValueError:  # a module that was not made by an import
        return False
    if spec is None:
        return False
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return any(is_installed(Path(place)) for place in places)


def _load_module(named: Name) -> ModuleType:
    location = named.location
    importlib.invalidate_caches()  # the file may have been written since Python last listed its folder
    try:
        return importlib.import_module(location)
    except ModuleNotFoundError as error:
        if error.name and (location == error.name or location.startswith(error.name + ".")):
            raise EnvironmentSetupError(
                f"no module named {error.name!r}",
                where=named.where,
                fix=f"check the spelling, run from the folder that holds it ({Path.cwd()} is searched), or give the "
                f"file: path/to/file.py:{named.kind}",
            ) from error
        raise _import_failed(named, error) from error
    except (Exception, SystemExit) as error:
        raise _import_failed(named, error) from error


def _load_file(named: Name) -> ModuleType:
    path = _file_of(named)
    digest = hashlib.sha256(str(path).encode() + b"\0" + path.read_bytes()).hexdigest()[:12]
    module_name = f"rlft_file_{path.stem}_{digest}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None  # of a file that ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # before it runs: dataclasses and pickle look their module up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[module_name]
        raise _import_failed(named, error) from error
    return module


def _file_of(named: Name) -> Path:
    path = expanded(named.location).absolute()
    if problem := why_no_file(path):
        raise EnvironmentSetupError(
            f"{path}: {problem}" if os.path.exists(path) else f"there is no file {path}",
            where=named.where,
            fix="give the path from the working directory, or an absolute one",
        )
    return path.resolve()


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
