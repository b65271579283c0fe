"""The page of all public names is made from the docstrings, and its examples hold."""

import doctest
from pathlib import Path

import pytest

import rlft
from tests import reference_page

PAGE = Path(__file__).parents[2] / "docs/guide/reference.md"
FOUND = [each for _, section in reference_page.SECTIONS for each in section]


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == reference_page.page(), "python -m tests.reference_page > docs/guide/reference.md"


def test_every_public_name_is_on_the_page():
    assert {each.__name__ for each in FOUND} >= set(rlft.__all__)


@pytest.mark.parametrize("found", FOUND, ids=lambda each: each.__name__)
def test_its_example_holds(found):
    (example,) = doctest.DocTestFinder(recurse=False).find(found, found.__name__)
    assert example.examples
    said = []
    doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF).run(example, out=said.append)
    assert not said, "".join(said)
