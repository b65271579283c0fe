"""The page of graders is that of their classes."""

from pathlib import Path

from tests import graders_page

PAGE = Path(__file__).resolve().parents[4] / "docs" / "guide" / "graders.md"


def test_the_page_of_graders_is_up_to_date():
    assert PAGE.read_text() == graders_page.page(), "python -m tests.graders_page > docs/guide/graders.md"
