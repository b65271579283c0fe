"""Which runs may go, and which places are in the home. With real runs: tests/e2e."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cli.removing import chosen_runs, read_age
from mlops.home.folder import Home
from mlops.runs.listing import Attempt, ListedRun
from mlops.runs.removing import remove_folder, why_kept
from mlops.summary.summary import Summary
from rlft.errors import RlftError


def run(name, days=0.0, status="improved", summary=None, **more):
    began = datetime.now(UTC) - timedelta(days=days)
    return ListedRun(name, (Attempt(f"{name}-id", name, "completed", began, 1.0),), status, summary=summary, **more)


@pytest.mark.parametrize(
    ("keep_last", "older_than", "gone"),
    [
        (2, None, ["c", "d"]),
        (0, None, ["a", "b", "c", "d"]),
        (9, None, []),
        (None, timedelta(days=5), ["c", "d"]),
        (None, timedelta(days=50), ["d"]),
        (3, timedelta(days=5), ["d"]),  # old by both
        (1, timedelta(days=5), ["c", "d"]),
    ],
)
def test_what_is_old(keep_last, older_than, gone):
    runs = [run("a", 1), run("b", 2), run("c", 10), run("d", 100)]
    assert [each.name for each in chosen_runs(runs, keep_last=keep_last, older_than=older_than)] == gone


@pytest.mark.parametrize(
    ("listed", "resumable_too", "said"),
    [
        (run("a"), False, None),
        (run("a", status="running"), True, "it goes on"),
        (run("a", status="failed"), False, "it can be resumed; name it in `rlft delete`, or give --failed"),
        (run("a", status="killed"), False, "it can be resumed; name it in `rlft delete`, or give --failed"),
        (run("a", status="failed"), True, None),
        (run("a", status="failed", summary=Summary(status="failed", needs_new_settings=True)), False, None),
    ],
)
def test_what_stays_and_why(listed, resumable_too, said):
    assert why_kept(listed, resumable_too=resumable_too) == said


def test_a_run_whose_version_has_an_alias_stays():
    said = why_kept(run("a"), ["tiny 1 is challenger", "tiny 1 is champion"], resumable_too=True)
    assert said.startswith("tiny 1 is challenger and tiny 1 is champion; remove the alias first")


@pytest.mark.parametrize(("text", "hours"), [("12h", 12), ("30d", 720), ("8w", 1344), ("0d", 0)])
def test_ages(text, hours):
    assert read_age(text) == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "30", "d", "-3d", "1.5d", "30 days", "9999999d"])
def test_what_is_no_age(text):
    with pytest.raises(RlftError, match="is no age"):
        read_age(text)


def test_nothing_outside_the_home_is_removed(tmp_path):
    home = Home(tmp_path / "home")
    inside, outside = home.root / "zenml/local_stores/1/step/out/id", tmp_path / "elsewhere/out"
    for folder in (inside, outside):
        folder.mkdir(parents=True)
    link = home.root / "zenml/link"
    link.symlink_to(outside.parent)
    for folder in (
        outside,
        home.root / "zenml/../../elsewhere/out",
        link,
        link / "out",
        home.root,
        home.root / "zenml",
    ):
        remove_folder(home, folder)
        assert (outside.is_dir(), inside.is_dir()) == (True, True)
    remove_folder(home, inside)
    assert not inside.parent.exists()  # that of the call, which was alone in it
