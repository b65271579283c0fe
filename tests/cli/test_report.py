"""`rlft report` refuses a file that cannot be written before it looks anything up."""

from __future__ import annotations

import os

import pytest
from typer.testing import CliRunner

from cli import app as cli


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("there", "--to there: this is a folder, not a file"),
        ("a file/x.html", "nothing can be written there"),
        ("pipe", "this is a pipe, not a file"),
    ],
)
def test_a_target_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch, to, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / "home"))
    (tmp_path / "there").mkdir()
    (tmp_path / "a file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    result = CliRunner().invoke(cli.make_app(), ["report", "no-such-run", "--to", to])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split()), result.output
    assert sorted(os.listdir(tmp_path)) == ["a file", "pipe", "there"]
