"""Text from anywhere is shown as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rlft.texts.blocks import Bullets, Caution, Headline, Table, bullets, fenced, paragraph, plain, table_text

HOSTILE = [
    "<script>alert(1)</script>",
    "# Title",
    "[a](javascript:b)",
    "![a](http://x)",
    "| a | b |",
    "**bold** _it_ `code` ~~no~~ $x$",
    "1. one",
    "- one",
    "+ one",
    "```\nfence",
    "---\nlicense: mit",
    "&lt;b&gt;",
    "a\\",
    "https://example.org",
]
RENDER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def shown(html: str) -> str:
    """The text of one paragraph, as a browser would show it."""
    assert html.startswith("<p>")
    assert html.endswith("</p>\n")
    assert html.count("<") == 2
    inner = html[3:-5]
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        inner = inner.replace(entity, character)
    return inner


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_one_paragraph_of_itself(text):
    assert shown(RENDER.render(plain(text))) == " ".join(text.split())


@given(st.text(st.sampled_from("ab1 \n\t<>#*_`|[]()!\\&-+.:=~$@{}\x1b\u202e"), min_size=1).filter(str.strip))
def test_any_text_is(text):
    from rlft.texts.characters import visible

    assert shown(RENDER.render(plain(text))) == " ".join(visible(text).split())


@given(st.lists(st.text(st.sampled_from("ab|\n\\`<")), min_size=1, max_size=3))
def test_a_table_keeps_its_cells(cells):
    table = Table("a|b", tuple(f"c{n}" for n in range(len(cells))), (tuple(cells),))
    html = RENDER.render(table_text(table))
    assert html.count("<td>") + html.count("<td ") == len(cells)
    assert html.count("<tr>") == 2


def test_a_block_of_code_ends_where_it_should():
    html = RENDER.render(fenced("a\n```\n<b>\n````\nc") + "\n\nbehind")
    assert html.count("<pre>") == 1
    assert "&lt;b&gt;\n````\nc" in html
    assert html.endswith("<p>behind</p>\n")


def test_lists_and_long_texts():
    assert bullets(["a", "# b\nc"]) == "- a\n- \\# b c"
    assert plain("x" * 30, longest=10) == "x" * 10 + " ..."


def test_blocks_are_paragraphs():
    assert paragraph(Headline("It is *better*.")) == "**It is \\*better\\*.**"
    assert paragraph(Caution("> It says\nlittle.")) == "> \\> It says little."
    assert paragraph(Bullets("Registry", ("# one", "two"))) == "Registry\n- \\# one\n- two"
    assert paragraph(Bullets("Registry", ())) == "Registry"
    assert paragraph("1. one") == "1\\. one"
    assert paragraph("*It* pays:\na  0.1\nbc 0.2") == "\\*It\\* pays:\n\n```text\na  0.1\nbc 0.2\n```"
    rows = (("base", "0.1"), ("trained|by us", "0.2"))
    lines = ["| model | test |", "| --- | --- |", "| base | 0.1 |", "| trained\\|by us | 0.2 |"]
    assert paragraph(Table("", ("model", "test"), rows)).splitlines() == lines
    assert paragraph(Table("accuracy", ("model", "test"), rows)).splitlines() == ["accuracy:", "", *lines]
