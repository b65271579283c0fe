"""A page that cannot be made does not end a run that is over."""

from __future__ import annotations

from mlops.summary.summary import Summary
from rlft.errors import StorageError
from steps import promotion as module

SUMMARY = Summary(status="improved").model_dump(mode="json")


def test_it_is_the_page_of_the_run(monkeypatch):
    monkeypatch.setattr(module, "find_home", lambda: "home")
    monkeypatch.setattr(module, "find_run", lambda run: run)
    monkeypatch.setattr(module, "SharedRun", lambda home, run: f"{home} {run}")
    monkeypatch.setattr(module, "make_report", lambda run, summary: f"<p>{run} {summary.status}</p>")
    assert module.write_report.entrypoint("id", SUMMARY) == "<p>home id improved</p>"


def test_one_that_cannot_be_made_says_so(monkeypatch, caplog):
    def fails(*_):
        raise StorageError("the store is away")

    monkeypatch.setattr(module, "find_home", lambda: "home")
    monkeypatch.setattr(module, "find_run", fails)
    assert "could not be made" in module.write_report.entrypoint("id", SUMMARY)
    assert "the store is away" in caplog.text
