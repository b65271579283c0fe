"""What judges answered is kept for other processes, and without secrets."""

from __future__ import annotations

import json
import threading
import time

from rlft.rewards.judges import Answers
from rlft.texts.secrets import resolve

KEYS = [f"{number:064x}" for number in range(40)]


def files(folder):
    return sorted(folder.glob("answers/??/*.json"))


def test_what_was_put_is_got_by_another_one(tmp_path):
    one = Answers(tmp_path)
    assert one.get(KEYS[0]) is None
    one.put(KEYS[0], "größe \ud800")
    assert Answers(tmp_path).get(KEYS[0]) == "größe \ud800"
    assert Answers(None).get(KEYS[0]) is None
    assert json.loads(files(tmp_path)[0].read_text()) == "größe \ud800"


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
