"""A run whose process ended without a word is told by what its environment's code was doing."""

import json
import shutil

from mlops.home.folder import Home
from mlops.home.last_calls import KILLED, calls_witnessed, ends_left, forget_calls, how_it_ended
from rlft.workers.witness import noted


def leave_note(home, run_id, name, *calls, alive=False):
    """Leave the note of a process that ended in these calls: a copy of one that is alive, of another process."""
    kept = home.root / "kept"
    with calls_witnessed(home, run_id, name):
        path = home.root / "runs" / f"{run_id}.calls"
        managers = [noted(*call) for call in calls]
        for manager in managers:
            manager.__enter__()
        shutil.copy(path, kept)
        for manager in managers:
            manager.__exit__(None, None, None)
    content = kept.read_bytes()
    heading = json.loads(content.split(b"\0", 1)[0])
    changed = content if alive else content.replace(f'"pid": {heading["pid"]}'.encode(), b'"pid": 0', 1)
    path.write_bytes(changed.ljust(len(content), b"\0") if alive else _shifted(changed, len(content)))


def _shifted(content, length):
    """Keep the places of what follows the heading, which has become shorter."""
    text, rest = content.split(b"\0", 1)
    return text + b"\0" * (length - len(text) - len(rest)) + rest


def test_it_is_found_by_id_and_name_and_names_what_ran_and_the_way_out(tmp_path):
    home = Home(tmp_path)
    leave_note(home, "a", "first", ("compute_reward", "train-0-1", "t1"), ("tool look", "train-0-2", "t2"))
    said = how_it_ended(home, "first")
    assert said == how_it_ended(home, "a")
    assert "the process ended while " in said
    assert "compute_reward ran for rollout train-0-1 of task t1" in said
    assert "tool look ran for rollout train-0-2 of task t2" in said
    assert said.endswith("set harness.isolation and reward.isolation to process, and it costs one rollout")
    assert how_it_ended(home, "second") == KILLED
    assert ends_left(home) == [("a", "first", said)]
    forget_calls(home, "a")
    assert ends_left(home) == []
    assert how_it_ended(home, "first") == KILLED


def test_a_run_that_goes_on_or_was_killed_between_calls_is_told_as_before(tmp_path):
    home = Home(tmp_path)
    leave_note(home, "a", "first", ("setup", "r", "t"), alive=True)
    leave_note(home, "b", "second")
    assert how_it_ended(home, "first") == how_it_ended(home, "second") == KILLED


def test_a_new_attempt_forgets_the_note_of_the_one_before(tmp_path):
    home = Home(tmp_path)
    leave_note(home, "a", "first", ("setup", "r", "t"))
    (tmp_path / "runs" / "broken.calls").write_bytes(b"")
    assert "setup ran for rollout r of task t" in how_it_ended(home, "first")
    with calls_witnessed(home, "b", "first"):
        assert not (tmp_path / "runs" / "a.calls").exists()
    assert how_it_ended(home, "first") == KILLED
