"""What `rlft serve` refuses before anything is loaded."""

from typer.testing import CliRunner

from cli import app as cli
from rlft.reporting import terminal


def test_masking_without_a_log_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(terminal.errors, "_width", 200)
    result = CliRunner().invoke(cli.make_app(), ["serve", "small@champion", "--engine", "mlflow", "--no-mask"])
    assert result.exit_code == 2
    assert "--no-mask: no conversation is kept" in " ".join(result.output.split())
