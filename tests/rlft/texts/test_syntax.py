"""rlft.texts.syntax: a text is parsed whatever the garbage collector does meanwhile."""

import ast
import gc

import pytest

from rlft.texts.syntax import parse


class _Parses:
    """An object in a circle, whose finalizer parses."""

    def __init__(self) -> None:
        self.circle = self

    def __del__(self) -> None:
        ast.parse("(" * 20 + "1" + ")" * 20)


@pytest.mark.slow
def test_a_finalizer_that_parses_does_not_disturb(monkeypatch):
    # In CPython before 3.11.8 some of these calls of ast.parse raise SystemError; in later ones none does.
    text = "\n".join(f"a{number} = [({number} + 1) * 2]" for number in range(200))
    want = ast.dump(ast.parse(text))
    before = gc.get_threshold()
    gc.set_threshold(7)
    try:
        for _ in range(30):
            for _ in range(50):
                _Parses()
            assert ast.dump(parse(text)) == want
    finally:
        gc.set_threshold(*before)


def test_tries_again_after_a_system_error_and_gives_up_in_the_end(monkeypatch):
    real, failures = ast.parse, []

    def failing(*args, **kwargs):
        if len(failures) < left:
            failures.append(1)
            raise SystemError("AST constructor recursion depth mismatch (before=8, after=5)")
        return real(*args, **kwargs)

    left = 4
    with monkeypatch.context() as patched:
        patched.setattr(ast, "parse", failing)
        tree = parse("1 + 1", mode="eval")
    assert ast.unparse(tree.body) == "1 + 1"
    left, failures = 5, []
    with monkeypatch.context() as patched:
        patched.setattr(ast, "parse", failing)
        with pytest.raises(SystemError):
            parse("1")


def test_raises_what_python_raises():
    with pytest.raises(SyntaxError):
        parse("1 +")
