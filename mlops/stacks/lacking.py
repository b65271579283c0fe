"""What a run needs and the pods of a stack will not have: files that are not handed to them, packages of the image.

A path that is absolute and not on this machine may well be one of a volume that the stack mounts, and is not refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mlops.home.folder import PROJECT
from mlops.stacks.archive import archived_files, is_archived
from mlops.stacks.imports import imported_by, wrong_packages
from mlops.stacks.needs import Needs
from mlops.stacks.requirements import OWN, contradictions, gathered_requirements
from rlft.config import Config
from rlft.config.code import Code, code_of
from rlft.errors import StackError
from rlft.files import OWN_PACKAGES, is_installed, named_files

if TYPE_CHECKING:
    from zenml.config import DockerSettings
    from zenml.stack import Stack

_IN_FILES = ("jsonl", "csv", "parquet")


def lacking_files(needs: Needs) -> list[StackError]:
    """Return an error that lists what a run will not find where it begins, if there is anything.

    It begins in a folder that holds the files of `mlops.stacks.archive`.
    """
    files = archived_files()
    named = [*files_of(needs), *_imported_files(needs)]
    lacking = [f"{setting}: {file}" for setting, file in named if not is_archived(file, files)]
    lacking += [f"{setting}: {file}" for setting, file in _modules_of_clone(needs) if file not in files.values()]
    lacking += [f"{setting}: {file} (it is not here, either)" for setting, file in _nowhere(needs)]
    if not lacking:
        return []
    return [
        StackError(
            "the run begins in a folder with what git knows of rlft's clone and of the working directory, and without "
            "these files:\n  " + "\n  ".join(dict.fromkeys(lacking)),
            where="--stack",
            fix="run the command in the folder of a git repository that holds and does not ignore them, and name them "
            f"from there on, or copy them into {PROJECT} and run it there (docs/guide/kubernetes.md)",
        )
    ]


def lacking_packages(needs: Needs, docker: DockerSettings, stack: Stack) -> list[StackError]:
    """Return an error that lists what is wrong with the packages of an image, if there is anything.

    What an image holds that exists already is not known here, and it is left alone.
    """
    if docker.skip_build:
        return []
    files = gathered_requirements(docker, stack)
    asked = [requirement for each in files for requirement in each]
    needed = imported_by(_users_code(needs)).packages | _named_packages(needs)
    wrong = [*contradictions(files), *wrong_packages(needed, asked)]
    if not wrong:
        return []
    return [
        StackError(
            "the image will not have the packages that the run needs:\n  " + "\n  ".join(wrong),
            where="--stack",
            fix=f"list what your code needs in {OWN} of the working directory, what stands in requirements/base.txt in "
            "the version that is there, and install the same here",
        )
    ]


def files_of(needs: Needs) -> Iterator[tuple[str, Path]]:
    """Yield each setting that names a file or folder of this machine, with the path as it is named.

    A module in the clone of rlft is left out: it is found by its name in the image, too. So is an installed package.
    """
    for code in _code(needs):
        if code.file is None or not code.file.exists() or (code.is_module and _is_found_by_name(code.file)):
            continue
        yield code.setting, _from_here(code.file)
    for config in needs.configs:
        yield from _data(config)


def _data(config: Config) -> Iterator[tuple[str, Path]]:
    named = {
        **{f"{section}.path": source.path for section, source in config.tasks.sources().items()},
        "warm_start.path": config.warm_start and config.warm_start.path,
        "policy.model": config.policy.model,
        "policy.chat_template": config.policy.chat_template,
    }
    yield from ((setting, Path(name)) for setting, name in named.items() if name and Path(name).exists())
    yield from (("environment.kwargs", file) for file in named_files(config.environment.kwargs))


def _nowhere(needs: Needs) -> Iterator[tuple[str, Path]]:
    """Yield each setting that names a file from the working directory on which is not there."""
    named = [(code.setting, code.file) for code in _code(needs) if not code.is_module]
    sources = [each for config in needs.configs for each in config.tasks.sources().items()]
    named += [
        (f"{section}.path", Path(source.path))
        for section, source in sources
        if source.path and source.source in _IN_FILES
    ]
    yield from ((setting, file) for setting, file in named if file and not file.is_absolute() and not file.exists())


def _modules_of_clone(needs: Needs) -> Iterator[tuple[str, Path]]:
    """Yield each setting that names a module in the clone of rlft, with its file."""
    for code in _code(needs):
        if code.is_module and code.file is not None and not is_installed(code.file):
            file = code.file.resolve()
            if file.is_relative_to(PROJECT):
                yield code.setting, file


def _named_packages(needs: Needs) -> dict[str, str]:
    """Return the installed packages whose modules the config names: {top-level name: setting}."""
    found = {}
    for code in _code(needs):
        if code.is_module and code.file is not None and is_installed(code.file):
            places = [place for place, part in enumerate(code.file.parts) if part in ("site-packages", "dist-packages")]
            found[Path(code.file.parts[places[-1] + 1]).stem] = code.setting
    return found


def _imported_files(needs: Needs) -> Iterator[tuple[str, Path]]:
    """Yield the files that the user's code imports, by the first word of what is said of them."""
    named = _users_code(needs)
    yield from (("imported", _from_here(file)) for file in imported_by(named).files if file not in named)


def _users_code(needs: Needs) -> list[Path]:
    """Return the files of code that a config names and that are a user's own: rlft's come with it."""
    files = [code.file for code in _code(needs) if code.file is not None and code.file.exists()]
    return [file for file in files if not is_installed(file) and not _is_rlfts(file)]


def _code(needs: Needs) -> Iterator[Code]:
    for config in needs.configs:
        yield from code_of(config)
    yield from needs.code


def _is_rlfts(file: Path) -> bool:
    file = file.resolve()
    return file.is_relative_to(PROJECT) and file.relative_to(PROJECT).parts[0] in OWN_PACKAGES


def _from_here(file: Path) -> Path:
    """Return a path as it is named in the working directory, where it lies below that."""
    here = Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file


def _is_found_by_name(module: Path) -> bool:
    return is_installed(module) or module.resolve().is_relative_to(PROJECT)
