"""The rows of the Snips benchmark, made of a few of its kind."""

import json

from benchmarks.snips import make_tasks
from rlft.environments.snips_slots import INTENTS


def test_rows_ids_and_groups():
    # Two requests share 4 of 6 pairs of words, so they are a group; é stands as UTF-8 and as one byte of cp1252.
    parts = [{"text": "play "}, {"text": "café del mar ", "entity": "album"}, {"text": "by jose padilla"}]
    louder = [{"text": "play "}, {"text": "café del mar ", "entity": "album"}, {"text": "by jose louder"}]
    songs = json.dumps({"PlayMusic": [{"data": parts}, {"data": louder}]}, ensure_ascii=False)

    def read(name: str) -> bytes:
        if "validate_PlayMusic" in name:
            return songs.encode().replace("é".encode(), b"\xe9", 1)
        intent = name.split("/")[1]
        return json.dumps({intent: []}).encode()

    rows = make_tasks(read)
    assert [row["id"] for row in rows] == ["snips-PlayMusic-validate-0001", "snips-PlayMusic-validate-0002"]
    assert [row["text"] for row in rows] == ["play café del mar by jose padilla", "play café del mar by jose louder"]
    assert rows[0]["slots"] == [{"slot": "album", "value": "café del mar"}]
    assert rows[0]["group"] == rows[1]["group"]
    assert set(INTENTS) >= {row["intent"] for row in rows}
