"""An environment that turns a spoken request into a function call: one of seven functions (the intent) and its
arguments (the slots).

The data are the Snips benchmark (Coucke et al. 2018, arXiv:1805.10190). The first turn is the attempt: one call, or
without tools one JSON object `{"intent": ..., "slots": {...}}`. Several calls that differ earn nothing, so trying more
than one function does not pay. A slot that occurs twice takes a list of values.

Values are compared without case and surplus white space. A label's value always stands in the request word for word, so
a value that does not stand there is wrong. The slots are scored by the Jaccard index: (slot, value) pairs in both over
pairs in either. F1, the field's measure, is a metric only, as it pays for handing in both of two doubtful pairs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rlft.environments.contract.base import BaseEnv, Context
from rlft.messages import make_call
from rlft.rewards.graders.json_values import read_json_object
from rlft.types import Message, Task, Trajectory

Pairs = Counter[tuple[str, str]]  # {(slot, normalised value): how often}

# {intent: (description, its slots)}
INTENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "AddToPlaylist": (
        "Add a song, an album or an artist to a playlist.",
        ("artist", "entity_name", "music_item", "playlist", "playlist_owner"),
    ),
    "BookRestaurant": (
        "Book a table.",
        (
            "city", "country", "cuisine", "facility", "party_size_description", "party_size_number", "poi",
            "restaurant_name", "restaurant_type", "served_dish", "sort", "spatial_relation", "state", "timeRange",
        ),
    ),
    "GetWeather": (
        "Say what the weather is or will be.",
        (
            "city", "condition_description", "condition_temperature", "country", "current_location", "geographic_poi",
            "spatial_relation", "state", "timeRange",
        ),
    ),
    "PlayMusic": (
        "Play music.",
        ("album", "artist", "genre", "music_item", "playlist", "service", "sort", "track", "year"),
    ),
    "RateBook": (
        "Rate a book.",
        (
            "best_rating", "object_name", "object_part_of_series_type", "object_select", "object_type", "rating_unit",
            "rating_value",
        ),
    ),
    "SearchCreativeWork": ("Find a creative work by its title.", ("object_name", "object_type")),
    "SearchScreeningEvent": (
        "Find out when or where films are shown.",
        (
            "location_name", "movie_name", "movie_type", "object_location_type", "object_type", "spatial_relation",
            "timeRange",
        ),
    ),
}  # fmt: skip
_COPY = (
    "Copy each value from the request word for word, leave out what it does not say, and give a list where one "
    "argument has several values."
)


class SnipsSlots(BaseEnv):
    """Asks for the one function call that a request means, and scores intent and slots.

    Parts: `intent` (the right function) and `slots` (its arguments, 0 for a wrong function). Metrics: `slot_f1`, and
    `copied`, the share of the given values that stand in the request. A task's prompt is the request, its answer a list
    of objects with `slot` and `value`, and `info["intent"]` the intent.
    """

    max_turns = 1

    def __init__(self, tools: bool = True) -> None:
        """Choose the form of the attempt: with `tools` a call, without them a JSON object as text."""
        self.tools = tools

    def context(self, task: Task) -> Context:
        """Return the system prompt; where there are no tools it also lists the intents and their slots."""
        del task
        if self.tools:
            return Context(f"Carry out the user's request with exactly one function call. {_COPY}")
        intents = "\n".join(f"- {name}: {does} Slots: {', '.join(slots)}" for name, (does, slots) in INTENTS.items())
        form = '{"intent": "...", "slots": {"...": "..."}}'
        return Context(f"Say what the user's request means as one JSON object: {form}. {_COPY} Intents:\n{intents}")

    async def list_tools(self) -> Sequence[dict[str, Any]]:
        """Return one function for each intent, with all slots optional, or none without `tools`."""
        return [_function(name) for name in INTENTS] if self.tools else []

    async def run_tool(self, rollout_id: str, tool_name: str, **args: Any) -> str:
        """Answer a call with "Done."; nothing is run, as the call itself is the attempt."""
        del rollout_id, args
        if tool_name not in INTENTS:
            raise LookupError(f"no function named {tool_name!r}")
        return "Done."

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Score the first turn: exactly the label's call is 1 in both parts, and what cannot be read as a call is 0."""
        intent, gold = _gold(completion.task, ground_truth)
        given = self._attempt(completion)
        if given is None:
            return {"intent": 0.0, "slots": 0.0, "slot_f1": 0.0, "copied": None}
        said, pairs = given
        right = pairs & gold if said == intent else Counter()
        either = pairs.total() + gold.total() - right.total()
        return {
            "intent": float(said == intent),
            "slots": right.total() / either if either else float(said == intent),
            "slot_f1": 2 * right.total() / ((pairs.total() + gold.total()) or 1),
            "copied": _copied(pairs, _request(completion.task)),
        }

    def reward_weights(self) -> dict[str, float]:
        """Return the weights: slots weigh twice as much as the intent, as seven intents are soon told apart."""
        return {"intent": 0.5, "slots": 1.0, "slot_f1": 0.0, "copied": 0.0}

    def reward_minima(self) -> dict[str, float]:
        """Return 0: no part of a score is below it."""
        return {"*": 0.0}

    def final_answer(self, completion: Trajectory) -> str | None:
        """Return intent and slots as JSON in one notation, so that equal attempts are the same vote, or `None`."""
        given = self._attempt(completion)
        return None if given is None else json.dumps([given[0], sorted(given[1].elements())])

    def gold_completion(self, task: Task) -> str | list[Message] | None:
        """Return the label as a call, or without `tools` as a JSON object; `None` for a task without an answer."""
        if task.answer is None:
            return None
        intent, _ = _gold(task, task.answer)
        slots: dict[str, Any] = {}
        for pair in task.answer:
            slots.setdefault(pair["slot"], []).append(pair["value"])
        slots = {name: values[0] if len(values) == 1 else values for name, values in slots.items()}
        return self._written(intent, slots)

    def attacks(self, task: Task) -> dict[str, str | list[Message]]:
        """Return the label with its whole numbers as numbers in place of texts, which no function takes."""
        gold = [] if task.answer is None else task.answer
        if not any(pair["value"].isdecimal() for pair in gold):
            return {}
        intent, _ = _gold(task, gold)
        slots = {pair["slot"]: int(value) if (value := pair["value"]).isdecimal() else value for pair in gold}
        return {"numbers": self._written(intent, slots)}

    def _written(self, intent: str, slots: dict[str, Any]) -> str | list[Message]:
        if not self.tools:
            return json.dumps({"intent": intent, "slots": slots}, ensure_ascii=False)
        return [Message(role="assistant", content="", tool_calls=[make_call(intent, slots, "call_1")])]

    def _attempt(self, completion: Trajectory) -> tuple[str, Pairs] | None:
        """Return the intent and pairs of the first turn; `None` unless it is one call (or equal ones) or one object."""
        first = next((message for message in completion if message["role"] == "assistant"), None)
        if first is None:
            return None
        if not self.tools:
            return _read_text(first["content"])
        calls = [call["function"] for call in first.get("tool_calls") or ()]
        read = [_read_call(call["name"], call["arguments"]) for call in calls]
        return read[0] if read and all(call == read[0] for call in read) else None


def _function(name: str) -> dict[str, Any]:
    does, slots = INTENTS[name]
    value = {"type": ["string", "array"], "items": {"type": "string"}}
    schema = {"type": "object", "properties": dict.fromkeys(slots, value), "additionalProperties": False}
    return {"name": name, "description": does, "parameters": schema}


def _read_text(text: str) -> tuple[str, Pairs] | None:
    read = read_json_object(text)
    if read is None or set(read) != {"intent", "slots"} or not isinstance(read["intent"], str):
        return None
    return _read_call(read["intent"], read["slots"])


def _read_call(name: str, arguments: Any) -> tuple[str, Pairs] | None:
    """Return a call as intent and pairs; `None` if the function's schema refuses it.

    This is checked with tools, too: a call that the schema refused still stands in the conversation.
    """
    if name not in INTENTS or not isinstance(arguments, Mapping) or not set(arguments) <= set(INTENTS[name][1]):
        return None
    lists = {slot: value if isinstance(value, list) else [value] for slot, value in arguments.items()}
    if not all(isinstance(value, str) for values in lists.values() for value in values):
        return None
    return name, Counter((slot, normalise(value)) for slot, values in lists.items() for value in values)


def normalise(text: str) -> str:
    """Return the text as values are compared: case folded, white space as single spaces, none at the edges."""
    return " ".join(text.casefold().split())


def _copied(pairs: Pairs, request: str) -> float | None:
    """Return the share of values, not empty, that stand in the request; `None` where no values were given."""
    said = normalise(request)
    copied = sum(times for (_, value), times in pairs.items() if value and value in said)
    return copied / pairs.total() if pairs else None


def _request(task: Task) -> str:
    return next((m["content"] for m in reversed(task.prompt) if m["role"] == "user"), "")


def _gold(task: Task, answer: Any) -> tuple[str, Pairs]:
    """Return the label's intent and pairs. Raises ValueError for a task that has none."""
    intent = task.info.get("intent")
    if intent not in INTENTS or not isinstance(answer, list):
        raise ValueError(f"task {task.id} needs one of the seven intents in info['intent'] and a list of slots")
    return intent, Counter((pair["slot"], normalise(pair["value"])) for pair in answer)
