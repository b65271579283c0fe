"""Texts as a person sees them."""

from rlft.texts.characters import as_seen


def test_what_nobody_sees_is_left_out_and_letters_that_look_alike_are_one():
    assert as_seen("so\u200br\u00adr\ufe0fy") == "sorry"
    assert as_seen("\u0441\u0430\u0441\u0430 \u03bf") == "caca o"  # Cyrillic and Greek
    assert as_seen("\u0410\u0412\u0421 \u0405") == "ABC S"  # capitals as well
    assert as_seen("straße, café, plain") == "straße, café, plain"
