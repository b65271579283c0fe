"""What `rlft serve` refuses before anything is loaded."""

import pytest
from typer.testing import CliRunner

from cli import app as cli
from cli.serve import _masked
from rlft import terminal
from rlft.privacy import PERSONAL


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--log-share", "0.5"], "--log-share: no conversation is kept"),
        (["--mask", "US_SSN"], "--mask: no conversation is kept"),
        (["--no-mask"], "--no-mask: no conversation is kept"),
        (["--log-conversations", "--no-mask", "--mask", "US_SSN"], "--mask, --no-mask: both were given"),
        (["--log-conversations", "--mask", "NAME"], "--mask: 'NAME' is no kind that is found"),
        (["--log-conversations", "--log-share", "0"], "greater than or equal to"),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(terminal.errors, "_width", 200)
    result = CliRunner().invoke(cli.app, ["serve", "small@champion", "--engine", "mlflow", *options])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_all_kinds_are_masked_unless_some_or_none_are_asked_for():
    assert _masked(True, None, [], no_mask=False) == list(PERSONAL)
    assert _masked(True, 0.5, ["US_SSN", "EMAIL_ADDRESS"], no_mask=False) == ["EMAIL_ADDRESS", "US_SSN"]
    assert _masked(True, None, [], no_mask=True) == []
