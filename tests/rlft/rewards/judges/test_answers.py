"""What judges answered is kept whole, by several processes at once, up to a bound, and without secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from rlft.rewards.judges import answers
from rlft.rewards.judges.answers import Answers, key_of
from rlft.texts.secrets import resolve

KEYS = [key_of({"n": number}) for number in range(40)]


def files(folder):
    return sorted(folder.glob("answers/??/*.json"))


def test_what_was_put_is_got_by_another_one(tmp_path):
    one = Answers(tmp_path)
    assert one.get(KEYS[0]) is None
    one.put(KEYS[0], "größe \ud800")
    assert Answers(tmp_path).get(KEYS[0]) == "größe \ud800"
    assert Answers(None).get(KEYS[0]) is None
    assert json.loads(files(tmp_path)[0].read_text()) == {"text": "größe \ud800"}


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"text": 1}', "[" * 100_000, "{}"])
def test_what_is_damaged_is_as_if_it_were_not_there(tmp_path, damage):
    Answers(tmp_path).put(KEYS[0], "yes")
    files(tmp_path)[0].write_text(damage)
    again = Answers(tmp_path)
    assert again.get(KEYS[0]) is None
    again.put(KEYS[0], "no")
    assert Answers(tmp_path).get(KEYS[0]) == "no"


def test_the_oldest_go_where_there_are_too_many(tmp_path):
    kept = Answers(tmp_path, most=20)
    for number, key in enumerate(KEYS[:20]):
        kept.put(key, str(number))
        _date(tmp_path, key, number)
    assert len(files(tmp_path)) == 20
    kept.put(KEYS[20], "20")  # 21 are too many: 18 stay
    assert len(files(tmp_path)) == 18
    fresh = Answers(tmp_path)
    assert [fresh.get(key) for key in KEYS[:4]] == [None, None, None, "3"]
    assert fresh.get(KEYS[20]) == "20"


def test_memory_is_bounded_too():
    kept = Answers(None, most=2)
    for key in KEYS[:2]:
        kept.put(key, key)
    assert kept.get(KEYS[0]) == KEYS[0]  # used last, so that the other one goes
    kept.put(KEYS[2], "new")
    assert [kept.get(key) is None for key in KEYS[:3]] == [False, True, False]


def test_a_folder_that_cannot_be_written_to_is_told_once(tmp_path, caplog):
    (tmp_path / "answers").write_text("a file")
    kept = Answers(tmp_path)
    for key in KEYS[:3]:
        kept.put(key, "yes")
    assert [kept.get(key) for key in KEYS[:3]] == ["yes"] * 3
    assert caplog.text.count("is not kept") == 1


def test_an_answer_that_shows_a_secret_stays_in_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sk-kept-secret-0123456789")
    resolve("env:JUDGE_KEY", "judge.api_key")
    kept = Answers(tmp_path)
    kept.put(KEYS[0], "the key is sk-kept-secret-0123456789")
    assert files(tmp_path) == []
    assert kept.get(KEYS[0]) == "the key is sk-kept-secret-0123456789"


def test_one_at_a_time_looks_for_a_key():
    kept, asked = Answers(None), []

    def ask():
        with kept.alone(KEYS[0]):
            if kept.get(KEYS[0]) is None:
                asked.append(1)
                time.sleep(0.05)  # meanwhile the others would ask, too
                kept.put(KEYS[0], "yes")

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked == [1]
    assert kept._locks == {}


def test_two_processes_at_once_leave_whole_files(tmp_path):
    write = (
        "import sys; from pathlib import Path; from rlft.rewards.judges.answers import Answers, key_of\n"
        "kept = Answers(Path(sys.argv[1]), most=30)\n"
        "for turn in range(5):\n"
        "    for n in range(40):\n"
        "        kept.put(key_of({'n': n}), 'x' * 2000)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", write, str(tmp_path)]) for _ in range(2)]
    assert [process.wait(120) for process in running] == [0, 0]
    assert {json.loads(file.read_text())["text"] for file in files(tmp_path)} == {"x" * 2000}
    assert 0 < len(files(tmp_path)) <= 60  # each counts what it has seen
    assert list(tmp_path.rglob("*.partial")) == []


def _date(folder, key, seconds):
    os.utime(answers._file(folder, key), (seconds, seconds))
