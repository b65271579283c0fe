"""A page comes back as it was, is what the dashboard shows, and is noticed when it has changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from zenml.enums import VisualizationType
from zenml.types import HTMLString

from materializers.report import PageMaterializer
from rlft.errors import DamagedError

PAGE = HTMLString("<p>34 %, \u2028 as before</p>")


@pytest.mark.parametrize("store", ["local_store", "remote_store"])
def test_a_page_comes_back_and_is_shown(store, request):
    store = request.getfixturevalue(store)
    (place := Path(store.path) / "page").mkdir()
    materializer = PageMaterializer(str(place), store)
    materializer.save(PAGE)
    assert materializer.load(HTMLString) == PAGE
    ((shown, kind),) = materializer.save_visualizations(PAGE).items()
    assert (Path(shown).read_text(), kind) == (PAGE, VisualizationType.HTML)
    (place / "report.html").write_text("<p>90 %</p>")
    with pytest.raises(DamagedError, match=r"report\.html"):
        materializer.load(HTMLString)
