"""Requests as function calls: by value on made-up requests, and on all open rows of the data."""

import asyncio
import dataclasses
import json
from statistics import fmean

import pytest

from rlft.config import SourceConfig
from rlft.config.section import SPECIFICATION
from rlft.config.yaml_text import read_yaml
from rlft.environments.contract.loading import load_environment
from rlft.environments.contract.marks import read_tools
from rlft.environments.snips_slots import INTENTS, SnipsSlots
from rlft.tasks.rows import make_task as task_of_row
from rlft.tasks.sources import RawRow, read_rows
from rlft.types import Trajectory
from tests.rlft.attempts import audited, make_task
from tests.rlft.environments.playing import calls, parts_of, play, says, share_of
from tests.shipped import ROOT

WITH_TOOLS, AS_TEXT = SnipsSlots(), SnipsSlots(tools=False)
BOTH = pytest.mark.parametrize("environment", [WITH_TOOLS, AS_TEXT], ids=["tools", "text"])

REQUEST = " Play  Lazy River by the Tin Owls from 1987, or from 1988\n"
GOLD = [("track", "Lazy River"), ("artist", "the Tin Owls "), ("year", "1987"), ("year", "1988")]
SLOTS = {"track": "Lazy River", "artist": "the Tin Owls ", "year": ["1987", "1988"]}
FULL = {"intent": 1.0, "slots": 1.0, "slot_f1": 1.0, "copied": 1.0}
NOTHING = {"intent": 0.0, "slots": 0.0, "slot_f1": 0.0, "copied": None}


def request():
    return make_task("s", REQUEST, [{"slot": slot, "value": value} for slot, value in GOLD], intent="PlayMusic")


def said(slots, intent="PlayMusic", environment=WITH_TOOLS):
    """The parts of a call with these slots."""
    text = json.dumps({"intent": intent, "slots": slots})
    return parts_of(environment, request(), [calls((intent, slots))] if environment.tools else text)


@BOTH
def test_the_label_is_full(environment):
    assert parts_of(environment, request(), environment.gold_completion(request())) == FULL
    assert said(SLOTS, environment=environment) == FULL
    assert said(SLOTS | {"track": " lazy RIVER", "artist": "The Tin  Owls"}, environment=environment) == FULL


@BOTH
@pytest.mark.parametrize(
    ("slots", "right", "given", "copied"),
    [
        ({}, 0, 0, None),
        ({"track": "Lazy River"}, 1, 1, 1.0),
        (SLOTS | {"year": "1987"}, 3, 3, 1.0),
        (SLOTS | {"year": ["1987", "1988", "1988"]}, 4, 5, 1.0),
        (SLOTS | {"album": "Lazy River"}, 4, 5, 1.0),
        (SLOTS | {"genre": "jazz"}, 4, 5, 0.8),  # the request does not say it
        (SLOTS | {"genre": ""}, 4, 5, 0.8),
        (SLOTS | {"track": "Lazy"}, 3, 4, 1.0),
        (dict.fromkeys(INTENTS["PlayMusic"][1], REQUEST), 0, 9, 1.0),
        ({key: ["Lazy River", "the Tin Owls", "1987", "1988"] for key in INTENTS["PlayMusic"][1]}, 4, 36, 1.0),
    ],
)
def test_slots_are_shared_pairs_over_all_pairs(environment, slots, right, given, copied):
    # Jaccard right / (given + 4 - right); F1 2 right / (given + 4)
    expected = {"intent": 1.0, "slots": right / (given + 4 - right), "slot_f1": 2 * right / (given + 4)}
    assert said(slots, environment=environment) == pytest.approx({**expected, "copied": copied})


@BOTH
def test_another_function_earns_nothing_even_with_the_right_values(environment):
    slots = {"artist": "the Tin Owls", "music_item": "Lazy River"}
    assert said(slots, "AddToPlaylist", environment) == {**NOTHING, "copied": 1.0}


@BOTH
@pytest.mark.parametrize("slots", [{"year": 1987}, {"track": None}, {"track": {"a": "b"}}, ["track"], "track", None])
def test_values_that_are_no_text_are_no_attempt(environment, slots):
    if environment.tools and not isinstance(slots, dict):
        completion = Trajectory([calls(("PlayMusic", slots))], task=request())
        assert asyncio.run(environment.compute_reward(completion, request().answer)) == NOTHING
    else:
        assert said(slots, environment=environment) == NOTHING


@BOTH
@pytest.mark.parametrize("value", [[], "Lazy River", ["1987", "1988"]])
def test_a_slot_that_the_function_has_not_is_no_attempt(environment, value):
    # the tool's schema refuses such a call, also where the slot is another function's
    assert said(SLOTS | {"bogus": value}, environment=environment) == NOTHING
    assert said(SLOTS | {"cuisine": value}, environment=environment) == NOTHING
    assert said(SLOTS | {"album": []}, environment=environment) == FULL  # a slot it has, without a value


def test_calls_that_differ_earn_nothing():
    right, wrong = ("PlayMusic", SLOTS), ("AddToPlaylist", {"artist": "the Tin Owls"})
    for several in ([right, wrong], [wrong, right], [right, ("PlayMusic", {})], [right, ("Unknown", {})]):
        assert parts_of(WITH_TOOLS, request(), [calls(*several)]) == NOTHING
    assert parts_of(WITH_TOOLS, request(), [calls(right, right)]) == FULL
    assert parts_of(WITH_TOOLS, request(), [calls(*((name, {}) for name in INTENTS))]) == NOTHING


def test_the_first_turn_is_the_attempt():
    right, wrong = calls(("PlayMusic", SLOTS)), calls(("AddToPlaylist", {}))
    assert parts_of(WITH_TOOLS, request(), [wrong, right])["intent"] == 0.0
    assert parts_of(WITH_TOOLS, request(), [right, wrong]) == FULL
    assert parts_of(WITH_TOOLS, request(), [says("Let me see."), right]) == NOTHING
    assert (WITH_TOOLS.max_turns, AS_TEXT.max_turns) == (1, 1)


@pytest.mark.parametrize("text", ["", REQUEST, "PlayMusic", json.dumps({"intent": "PlayMusic", "slots": SLOTS})])
def test_words_are_no_call(text):
    assert parts_of(WITH_TOOLS, request(), text) == NOTHING


@pytest.mark.parametrize(
    "text",
    [
        '{"intent": "PlayMusic"}',
        '{"intent": ["PlayMusic", "RateBook"], "slots": {}}',
        '{"intent": "PlayMusic", "intent": "RateBook", "slots": {}}',
        '{"intent": "PlayMusic", "slots": {"year": "1987", "year": "1988"}}',
        '{"intent": "PlayMusic", "slots": {}, "why": ""}',
        '{"intent": "PlayMusic", "slots": {}} {"intent": "RateBook", "slots": {}}',
        '{"intent": "Playmusic", "slots": {}}',
    ],
)
def test_as_text_one_object_of_the_form_counts(text):
    assert parts_of(AS_TEXT, request(), text) == NOTHING


def test_hedging_between_two_slots_pays_no_more_than_choosing():
    # three pairs sure, one of two doubtful: handed in both 4 / 5; choosing, 4 / 4 or 3 / 5 with equal chances, 4 / 5
    hedged = said(SLOTS | {"album": "Lazy River"})["slots"]
    album = {name: value for name, value in SLOTS.items() if name != "track"} | {"album": "Lazy River"}
    assert hedged == (said(SLOTS)["slots"] + said(album)["slots"]) / 2


def test_the_tools_are_the_seven_intents_and_take_text_or_lists():
    specs = read_tools(asyncio.run(WITH_TOOLS.list_tools()))
    assert [spec.name for spec in specs] == list(INTENTS)
    assert [len(spec.parameters["properties"]) for spec in specs] == [5, 14, 9, 9, 7, 2, 7]
    assert specs[3].read_arguments(SLOTS) == SLOTS
    with pytest.raises(ValueError, match="cuisine"):
        specs[3].read_arguments({"cuisine": "jazz"})
    assert asyncio.run(play(WITH_TOOLS, request(), [calls(("PlayMusic", SLOTS))]))[-1]["content"] == "Done."
    assert asyncio.run(AS_TEXT.list_tools()) == []
    assert "best_rating" in AS_TEXT.context(request()).system_prompt


def test_a_row_without_its_intent_is_an_error():
    with pytest.raises(ValueError, match=r"info\['intent'\]"):
        parts_of(WITH_TOOLS, make_task("s", REQUEST, []), "")


@pytest.fixture(scope="module")
def tasks(shared_data):
    path = str(shared_data / "snips_slots" / "utterances.jsonl")
    source = SourceConfig(source="jsonl", path=path, prompt="text", answer="slots", id="id", group="group")
    made = [task_of_row(row, source, environment="snips") for row in read_rows(source) if isinstance(row, RawRow)]
    assert len(made) == 2787
    return made


def share(environment, task, *messages):
    parts = asyncio.run(environment.compute_reward(Trajectory(messages, task=task), task.answer))
    return share_of(environment, parts)


@pytest.mark.slow
@BOTH
def test_gold_is_full_and_the_rest_less_on_every_row(environment, tasks):
    tools = {spec.name: spec for spec in read_tools(asyncio.run(environment.list_tools()))}
    for task, other in zip(tasks, [*tasks[1:], tasks[0]], strict=True):
        gold, wrong = ([g] if environment.tools else [says(g)] for g in _golds(environment, task, other))
        for call in gold[0].get("tool_calls", ()):
            tools[call["function"]["name"]].read_arguments(call["function"]["arguments"])
        trajectory = Trajectory(gold, task=task)
        assert share(environment, task, *gold) == share(environment, task, *gold) == 1.0, task.id
        assert share(environment, task, says("")) == share(environment, task, says(_text(task))) == 0.0
        if environment.final_answer(Trajectory(wrong, task=task)) != environment.final_answer(trajectory):
            assert share(environment, task, *wrong) < 1.0, task.id


@pytest.mark.slow
def test_the_shipped_specification_pays_golds_as_the_python_reward_does(tasks):
    spec = read_yaml((ROOT / "configs" / "rewards" / "snips_slots.yaml").read_text())
    written = load_environment("rlft.environments.snips_slots:SnipsSlots", {SPECIFICATION: json.dumps(spec)})

    async def differing():
        for task, other in zip(tasks, [*tasks[1:], tasks[0]], strict=True):
            for gold in _golds(WITH_TOOLS, task, other):
                attempt = Trajectory([gold], task=task)
                own, parts = [await each.compute_reward(attempt, task.answer) for each in (WITH_TOOLS, written)]
                if any(parts[name] != pytest.approx(own[name]) for name in ("intent", "slots")):
                    yield task.id

    async def found():
        return [each async for each in differing()]

    assert asyncio.run(found()) == []


@pytest.mark.slow
def test_what_is_no_reading_earns_little(tasks):
    # intents are nearly equally frequent: a constant function without slots has 1 / 7 of a third of the reward
    def mean(attack):
        return fmean(share(WITH_TOOLS, task, calls(*attack(task))) for task in tasks)

    assert mean(lambda task: [("BookRestaurant", {})]) == pytest.approx(1 / 21, abs=0.005)
    constant = mean(lambda task: [("RateBook", {"rating_value": "5", "best_rating": "6", "rating_unit": "points"})])
    assert constant < 0.08
    whole = mean(lambda task: [(_intent(task), dict.fromkeys(INTENTS[_intent(task)][1], _text(task)))])
    assert whole == pytest.approx(1 / 3, abs=0.001)  # the intent is given away here; slots earn nothing
    words = mean(lambda task: [(_intent(task), dict.fromkeys(INTENTS[_intent(task)][1], _text(task).split()))])
    assert words < 1 / 3 + 0.03
    assert mean(lambda task: [(name, {}) for name in INTENTS]) == 0.0


def test_the_audit_passes(tasks):
    report = audited(tasks, AS_TEXT, weights=AS_TEXT.reward_weights(), timeout_seconds=5.0, max_tasks=60)
    assert report.passed, report.text()


def test_numbers_in_place_of_texts_are_an_attack_that_a_specification_must_withstand():
    years = [str(1950 + n) for n in range(12)]
    tasks = [make_task(y, f"music of {y}", [{"slot": "year", "value": y}], intent="PlayMusic") for y in years]
    written = read_yaml((ROOT / "configs" / "rewards" / "snips_slots.yaml").read_text())
    numbers = WITH_TOOLS.attacks(tasks[0])["numbers"][0]["tool_calls"][0]["function"]["arguments"]
    assert numbers == {"year": 1950}
    assert json.loads(AS_TEXT.attacks(tasks[0])["numbers"]) == {"intent": "PlayMusic", "slots": {"year": 1950}}
    assert WITH_TOOLS.attacks(dataclasses.replace(tasks[0], answer=[{"slot": "year", "value": "now"}])) == {}

    def exploits(specification):
        environment = load_environment(
            "rlft.environments.snips_slots:SnipsSlots", {SPECIFICATION: json.dumps(specification)}
        )
        report = audited(tasks, environment, timeout_seconds=5.0)
        assert any(kind.endswith("numbers") for kind in report.attacks)
        return [kind for kind in report.exploits if kind.endswith("numbers")]

    assert exploits(written) == []
    del written["criteria"]["texts"]
    assert exploits(written) != []  # as it was: a number was compared by its text


def _golds(environment, *tasks):
    golds = [environment.gold_completion(task) for task in tasks]
    return golds if not environment.tools else [messages[0] for messages in golds]


def _intent(task):
    return task.info["intent"]


def _text(task):
    return task.prompt[-1]["content"]
