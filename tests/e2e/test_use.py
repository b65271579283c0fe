"""The circle: a champion is served and asked, people say what was wrong, and the next run learns it and is promoted."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from mlflow import MlflowClient
from mlflow.entities import AssessmentSource, Expectation
from mlflow.tracing.client import TracingClient

from tests.e2e.conftest import ROOT, Home, free_port
from tests.e2e.test_promotion import CONFIG, FIXTURES, aliases
from tests.mlops.registry.test_serving_real import Served

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow, pytest.mark.long]
OLD, NEW = "abcdef", "ghij"  # the last letters that training knows, and those that people ask for
ASKED, KNOWN, DISPUTED = 200, 10, 5  # questions; of them rows of the gate, and such that people disagree about
DISTRIBUTION = "late-letters"


def words(endings: str) -> list[str]:
    """All words of three letters that end so, in an order of chance that is always the same."""
    found = ["".join(letters) + end for letters in itertools.product("abcdefghij", repeat=2) for end in endings]
    random.Random(0).shuffle(found)
    return found


def held_out(endings: str) -> dict[str, list[str]]:
    """The rows of the splits that are no training, by split."""
    found = iter(words(endings))
    counts = {"gate": 60, "test": 20, "validation": 15}
    return {split: list(itertools.islice(found, count)) for split, count in counts.items()}


def circle_home(home: Home) -> Home:
    """A home whose file has old endings alone in `train`, and both kinds in the splits that measure."""
    shutil.copy(FIXTURES / "environments" / "last_letter.py", home.folder)
    rows = {word: split for endings in (OLD, NEW) for split, found in held_out(endings).items() for word in found}
    rows |= {word: "train" for word in words(OLD) if word not in rows}
    lines = [json.dumps({"id": word, "word": word, "answer": word[-1], "split": s}) for word, s in rows.items()]
    (home.folder / "words.jsonl").write_text("\n".join(lines) + "\n")
    return home


def run(home: Home, name: str, rounds: int, *more: str) -> dict[str, Any]:
    """The summary of a run."""
    settings = [*more, f"training.rounds={rounds}", "promotion.approval=none"]
    done = home.rlft("run", str(CONFIG), "--name", name, *(part for each in settings for part in ("--set", each)))
    assert done.code == 0, done.output
    assert done.summary is not None
    return done.summary


@contextmanager
def mlflow_server(home: Home):
    """The address of `rlft ui` over a home: a real MLflow server."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", "ui", "--port", str(port)],
        cwd=home.folder,
        env=home.environment() | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    address = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                httpx.get(f"{address}/health", trust_env=False)
                break
            except httpx.HTTPError:
                assert process.poll() is None
                time.sleep(0.2)
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def ask(url: str, word: str) -> tuple[str, str, str]:
    """Ask for a word's last letter; returns the word, the answer and the id of the trace."""
    body = {"messages": [{"role": "user", "content": f"{word}="}], "max_new_tokens": 2}
    headers = {"rlft-tag": f"distribution={DISTRIBUTION}"}
    answer = httpx.post(f"{url}/invocations", json=body, headers=headers, trust_env=False, timeout=120)
    assert answer.status_code == 200, answer.text
    return word, answer.json()[0], answer.headers["rlft-trace"]


def give_feedback(address: str, asked: list[tuple[str, str, str]]) -> None:
    """Say of each question what is right, and of every tenth something wrong; about some another disagrees."""
    client = TracingClient(address)
    for place, (word, _, trace) in enumerate(asked):
        said = "a" if place % 10 == 9 else word[-1]
        client.log_assessment(trace, expectation("ana", said))
        if place >= len(asked) - DISPUTED:
            client.log_assessment(trace, expectation("ben", "b"))


def expectation(person: str, value: str) -> Expectation:
    """What a person says is right."""
    return Expectation("expected_response", value, AssessmentSource("HUMAN", person))


def wait_for_traces(address: str, count: int) -> None:
    """Wait until so many conversations are written, which no answer waits for."""
    client = MlflowClient(address)
    deadline = time.monotonic() + 60
    while True:
        found = client.get_experiment_by_name("learns-served")
        if found and len(client.search_traces(locations=[found.experiment_id], max_results=500)) >= count:
            return
        assert time.monotonic() < deadline
        time.sleep(0.5)


USE = "tasks.use={experiment: learns-served, max_share: 0.4, tags: {distribution: " + DISTRIBUTION + "}}"


def test_what_people_ask_becomes_tasks_and_the_run_that_learns_them_is_promoted(make_home, tmp_path):
    home = circle_home(make_home("circle"))
    first = run(home, "first", 5)
    assert (first["promotion"]["promoted"], aliases(home)["champion"]) == (True, "1")
    measured = held_out(NEW)
    new = [word for word in words(NEW) if not any(word in found for found in measured.values())]
    questions = [*measured["gate"][:KNOWN], *new[: ASKED - KNOWN]]
    with mlflow_server(home) as address:
        server = Served(
            tmp_path / "served", address, ("learns@champion", "--engine", "mlflow", "--log-conversations", "masked")
        )
        try:
            server.wait()
            with ThreadPoolExecutor(4) as pool:
                asked = list(pool.map(lambda word: ask(server.url, word), questions))
            wait_for_traces(address, ASKED)
        finally:
            server.end(signal.SIGTERM)
        give_feedback(address, asked)
    assert sum(answer.strip() == word[-1] for word, answer, _ in asked) == 0  # where the champion is worse
    # Four clients ask at once, so the order of the traces is of chance, and with it what a run draws of them: after
    # five rounds one run had 0.87, another 1.0.
    second = run(home, "second", 8, USE)
    assert second["status"] == "improved"
    assert (second["promotion"]["promoted"], aliases(home)["champion"]) == (True, "2")
    # The champion knows the endings of one half of the gate alone.
    assert first["final"]["gate/accuracy"] < 0.6
    assert second["final"]["gate/accuracy"] > 0.8
    tasks = home.query(TASKS)
    notes = tasks["notes"]["use"]
    assert notes["found"] == ASKED
    assert notes["left_out"] == {"people_disagree": DISPUTED, "in_held_out": KNOWN}
    assert sum(notes["taken"].values()) == ASKED - DISPUTED - KNOWN
    assert tasks["from_use"] == {name: count for name, count in notes["taken"].items() if count}
    assert set(tasks["from_use"]) == {"train", "validation"}
    told = Counter(word[-1] == answer for word, answer in tasks["answers"])
    assert told[False] / told.total() == pytest.approx(0.1, abs=0.02)  # a tenth of what people said is wrong
    assert tasks["gate"] == sorted(f"{word}=" for endings in (OLD, NEW) for word in held_out(endings)["gate"])


TASKS = """
from collections import Counter
run = client.get_pipeline_run("second")
tasks = run.steps["ingest_tasks"].outputs["tasks"][0].load()
used = [task for task in tasks.tasks if "use_trace_id" in task.info]
print(json.dumps({
    "notes": tasks.notes,
    "from_use": dict(Counter(task.split for task in used)),
    "answers": [(task.text[:-1], task.answer) for task in used],
    "gate": sorted(task.text for task in tasks.split("gate")),
}))
"""
