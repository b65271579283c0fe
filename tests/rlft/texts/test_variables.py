"""Variables that settings name, and their values hidden in what comes back."""

import base64
import json
import logging
from urllib.parse import quote

import pytest

from rlft.errors import ConfigError
from rlft.texts.secrets import hide, hide_in, hide_in_logs, hiding, misspelt_variables, named_variables, resolve

VALUE = "Zw3/+ 'quoted\" key"


@pytest.fixture
def variable(monkeypatch):
    monkeypatch.setenv("RLFT_TEST_KEY", VALUE)
    monkeypatch.delenv("RLFT_TEST_NONE", raising=False)


def test_variables_are_read_at_any_depth_and_the_settings_stay(variable):
    written = {
        "a": ["env:RLFT_TEST_KEY", {"b": "Bearer {env:RLFT_TEST_KEY}!"}],
        "c": "environment:x",
        "d": 3,
        "e": None,
    }
    read = resolve(written, "environment.kwargs")
    assert read == {"a": [VALUE, {"b": f"Bearer {VALUE}!"}], "c": "environment:x", "d": 3, "e": None}
    assert written["a"][0] == "env:RLFT_TEST_KEY"
    assert list(named_variables(written, "k")) == [("k.a[0]", "RLFT_TEST_KEY"), ("k.a[1].b", "RLFT_TEST_KEY")]


def test_a_value_is_not_read_again_for_variables(monkeypatch):
    monkeypatch.setenv("RLFT_TEST_KEY", "{env:HOME}")
    assert resolve("x{env:RLFT_TEST_KEY}", "k") == "x{env:HOME}"


@pytest.mark.parametrize("value", [None, ""])
def test_a_variable_without_a_value_is_named_with_its_setting(variable, monkeypatch, value):
    if value is not None:
        monkeypatch.setenv("RLFT_TEST_NONE", value)
    with pytest.raises(ConfigError) as error:
        resolve({"a": ["env:RLFT_TEST_NONE", "env:RLFT_TEST_KEY"]}, "environment.kwargs")
    assert error.value.what == "environment.kwargs.a[0] needs the variable RLFT_TEST_NONE, which is not set or empty"
    assert "export RLFT_TEST_NONE=" in error.value.fix


@pytest.mark.parametrize(
    "form",
    [
        str,
        quote,
        lambda value: quote(value, safe=""),
        lambda value: json.dumps({"k": value}),
        repr,
        lambda value: base64.b64encode(value.encode()).decode(),
        *(
            lambda value, user=user: base64.b64encode(f"{user}:{value}".encode()).decode()
            for user in ("a", "ab", "abc")
        ),
        lambda value: base64.urlsafe_b64encode(f"{value}?".encode()).decode(),
    ],
)
def test_a_value_is_hidden_in_every_form(variable, form):
    resolve("env:RLFT_TEST_KEY", "k")
    hidden = hide(f"at {form(VALUE)} now")
    assert "***" in hidden
    assert "Zw3" not in hidden
    assert "key" not in hidden
    # What is left of base64 holds a byte of the value at most, beside its neighbours.
    for left in hidden.removeprefix("at ").removesuffix(" now").split("***"):
        assert len(left.rstrip("=")) <= 7


def test_the_credentials_within_a_value_are_hidden_too(monkeypatch):
    for value in ("Bearer Hq81zzzz", "postgresql://app:Hq82zz/z@db/x"):
        monkeypatch.setenv("RLFT_TEST_KEY", value)
        resolve("env:RLFT_TEST_KEY", "k")
    assert hide("token Hq81zzzz, password Hq82zz/z") == "token ***, password ***"


def test_a_short_value_is_left(monkeypatch):
    monkeypatch.setenv("RLFT_TEST_KEY", "five5")
    resolve("env:RLFT_TEST_KEY", "k")
    assert hide("high five5") == "high five5"


def test_an_error_and_its_causes_are_rid_of_values(variable):
    resolve("env:RLFT_TEST_KEY", "k")
    error = ConfigError(f"no {VALUE}", fix=f"{VALUE}?")
    error.__cause__ = RuntimeError(f"first {VALUE}", 3)
    error.__cause__.__context__ = error  # a circle ends
    with pytest.raises(ConfigError) as raised, hiding():
        raise error
    assert VALUE not in str(raised.value) + raised.value.fix + str(error.__cause__)
    assert error.__cause__.args == ("first ***", 3)
    hide_in(error)


def test_a_logged_line_is_rid_of_values(variable, caplog):
    resolve("env:RLFT_TEST_KEY", "k")
    before = logging.getLogRecordFactory()
    try:
        hide_in_logs()
        once = logging.getLogRecordFactory()
        hide_in_logs()
        assert logging.getLogRecordFactory() is once
        logging.getLogger("httpx.any").warning("GET %s", f"https://h/?q={quote(VALUE)}")
        logging.getLogger("httpx.any").warning("plain %d", 3)
        try:
            raise RuntimeError(VALUE)
        except RuntimeError:
            logging.getLogger("httpx.any").exception("it failed")
    finally:
        logging.setLogRecordFactory(before)
    assert "GET https://h/?q=***" in caplog.text
    assert "plain 3" in caplog.text
    assert "RuntimeError: ***" in caplog.text
    assert "Zw3" not in caplog.text


@pytest.mark.parametrize("text", ["env:A-KEY", "env: KEY", "ENV:KEY", "$env:KEY", "${env:KEY", "env:"])
def test_what_was_meant_to_name_a_variable_is_found(text):
    assert list(misspelt_variables({"a": [text]}, "")) == ["a[0]"]


@pytest.mark.parametrize("text", ["env:KEY", "{env:KEY}", "Bearer {env:KEY}", "environment: dry", "env", "env://host"])
def test_what_names_a_variable_or_does_not_mean_to_is_left(text):
    assert list(misspelt_variables({"a": [text]}, "")) == []
