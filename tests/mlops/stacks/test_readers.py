"""Artifacts that would be read by other classes than rlft's own are refused before anything is imported."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from zenml.config.source import Source, SourceType

from mlops.stacks.readers import _checked, _is_materializer, _is_type
from rlft.errors import DamagedError

OURS = ("materializers.tables", "RolloutsMaterializer")
PICKLE = ("zenml.materializers.cloudpickle_materializer", "CloudpickleMaterializer")


def read(name, is_own, module, attribute, kind=SourceType.USER):
    source = Source(module=module, attribute=attribute, type=kind)
    body = SimpleNamespace(**{name: source})
    return _checked(name, is_own)(SimpleNamespace(uri="/home/a", get_body=lambda: body)) is source


@pytest.mark.parametrize("kind", [SourceType.USER, SourceType.DISTRIBUTION_PACKAGE])
def test_own_ones_are_read(kind):
    assert read("materializer", _is_materializer, *OURS, kind)
    assert read("data_type", _is_type, "rlft.types.report", "Evaluation", kind)
    assert read("data_type", _is_type, "zenml.types", "HTMLString", kind)


@pytest.mark.parametrize(
    ("name", "is_own", "source"),
    [
        ("materializer", _is_materializer, PICKLE),
        ("materializer", _is_materializer, ("materializers_of_mine.tables", "RolloutsMaterializer")),
        ("materializer", _is_materializer, ("materializers.disk", "writing")),
        ("materializer", _is_materializer, (*OURS, SourceType.NOTEBOOK)),
        ("data_type", _is_type, ("antigravity", "fly")),
        ("data_type", _is_type, ("zenml.types", "MarkdownString")),
        ("data_type", _is_type, ("rlft.types.report", "Evaluation", SourceType.NOTEBOOK)),
    ],
)
def test_others_are_refused(name, is_own, source):
    with pytest.raises(DamagedError, match=f"its {name} is '.*', which is none of rlft's"):
        read(name, is_own, *source)
