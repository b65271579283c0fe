"""That each benchmark can still be started after the library has changed: all of their modules import."""

import importlib
import pkgutil

import pytest

import benchmarks


@pytest.mark.slow
def test_every_module_imports():
    names = [module.name for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")]
    # `__main__` runs when it is imported, and TRL is no package of a user's.
    modules = [importlib.import_module(name) for name in names if not name.endswith(("__main__", "_trl"))]
    assert len(modules) > 30
