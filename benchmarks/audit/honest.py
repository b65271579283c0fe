"""Ten honest rewards that a careless audit would accuse: partial credit, tolerance, short or several golds."""

from __future__ import annotations

import json
import re

import rlft
from benchmarks.audit.cases import Case
from benchmarks.audit.data import (
    CAPITALS,
    COLOURS,
    LARGER,
    LENGTHS,
    PRIMES,
    RECORDS,
    SENTENCES,
    SUMS,
    YES_NO,
)  # fmt: skip
from rlft.environments.contract.base import BaseEnv
from rlft.messages import make_call
from rlft.rewards.graders.lists import token_f1


class Exact(BaseEnv):
    """Compares without case and white space."""

    def compute_reward(self, completion, ground_truth):
        return {"right": float(completion.text.strip().lower().rstrip(".") == ground_truth.lower())}


class YesNo(BaseEnv):
    """Takes the first word, as in "Yes, it is."."""

    def compute_reward(self, completion, ground_truth):
        words = re.findall(r"[a-z]+", completion.text.lower())
        return {"right": float(words[:1] == [ground_truth] and not {"yes", "no"} <= set(words))}


class Prime(BaseEnv):
    """Checks what is asked instead of comparing with gold: many answers are right."""

    def compute_reward(self, completion, ground_truth):
        said, (low, high) = completion.text.strip(), map(int, re.findall(r"\d+", completion.task.text))
        number = int(said) if re.fullmatch("[0-9]{1,3}", said) else 0
        return {"right": float(low < number < high and all(number % each for each in range(2, number)))}


class Tolerant(BaseEnv):
    """Takes a number within one percent, with or without its unit."""

    def compute_reward(self, completion, ground_truth):
        found = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,20})?)\s*(?:cm)?\s*", completion.text)
        return {"right": float(bool(found) and abs(float(found.group(1)) - ground_truth) <= 0.01 * ground_truth)}


class AnyOrder(BaseEnv):
    """Pays the share of the items, without regard to their order; what is too much counts against it."""

    def compute_reward(self, completion, ground_truth):
        said = {each.strip().lower() for each in completion.text.split(",") if each.strip()}
        return {"jaccard": len(said & set(ground_truth)) / len(said | set(ground_truth))}

    def gold_completion(self, task):
        return ", ".join(task.answer)


class Words(BaseEnv):
    """Pays the F1 of the words, and a little for a short text."""

    def compute_reward(self, completion, ground_truth):
        return {"f1": token_f1(completion.text, [ground_truth]), "short": float(0 < len(completion.text) < 80)}

    def reward_weights(self):
        return {"short": 0.1}


class Fields(BaseEnv):
    """Pays each field that is right, with a penalty for each one that is not asked for."""

    def compute_reward(self, completion, ground_truth):
        try:
            read = json.loads(completion.text)
        except (ValueError, RecursionError):
            read = None
        if not isinstance(read, dict):
            return {"fields": 0.0, "excess": 0.0}
        right = sum(json.dumps(read.get(key)) == json.dumps(value) for key, value in ground_truth.items())
        return {"fields": right / len(ground_truth), "excess": float(len(set(read) - set(ground_truth)))}

    def reward_weights(self):
        return {"excess": -0.2}


class Declared(BaseEnv):
    """Reads one declared number; the form pays a tenth."""

    def compute_reward(self, completion, ground_truth):
        found = re.findall(r"^Answer: (\d+)$", completion.text, re.MULTILINE)
        return {"form": float(len(found) == 1), "right": float(found == [ground_truth])}

    def reward_weights(self):
        return {"form": 0.1}

    def gold_completion(self, task):
        return f"Answer: {task.answer}"


class Guarded(BaseEnv):
    """Takes points off for a wrong answer, so that silence is better than a guess."""

    def compute_reward(self, completion, ground_truth):
        said = completion.text.strip().lower()
        return {"points": 0.0 if not said else 1.0 if said == ground_truth.lower() else -1.0}


class Booking(BaseEnv):
    """Has a tool that changes the state, which decides; what is said in the end does not matter."""

    @rlft.tool
    def book(self, name: str, city: str, state: dict) -> str:
        """Book a room.

        Args:
            name: Who stays.
            city: Where.
        """
        state["rooms"] = [*state.get("rooms", []), [name, city]]
        return f"Booked for {name} in {city}."

    def compute_reward(self, completion, ground_truth):
        rooms = completion.state.get("rooms", [])
        return {"booked": float(rooms == [[ground_truth["name"], ground_truth["city"]]]), "calls": float(len(rooms))}

    def reward_weights(self):
        return {"calls": 0.0}

    def gold_completion(self, task):
        books = make_call("book", {"name": task.answer["name"], "city": task.answer["city"]}, "1")
        asks = {"role": "assistant", "content": "", "tool_calls": [books]}
        return [asks, {"role": "assistant", "content": f"A room for {task.answer['name']} is booked."}]


HONEST = [
    Case("exact", "matching", Exact(), LARGER, "gold stands in the prompt beside the only other option"),
    Case("yes_no", "matching", YesNo(), YES_NO, "golds are short, and a sentence says them as well"),
    Case("prime", "matching", Prime(), PRIMES, "many answers are right, also some that are gold elsewhere"),
    Case("tolerant", "parsing", Tolerant(), LENGTHS, "a number within a tolerance, with its unit"),
    Case("any_order", "matching", AnyOrder(), COLOURS, "a list in any order with partial credit"),
    Case("words", "matching", Words(), SENTENCES, "the F1 of words, between sentences that are alike"),
    Case("fields", "form", Fields(), RECORDS, "partial credit for fields, and a penalty"),
    Case("declared", "form", Declared(), SUMS, "one declared number, and a tenth for the form"),
    Case("guarded", "judging", Guarded(), CAPITALS, "a wrong answer costs something, silence does not"),
    Case("booking", "tools", Booking(), RECORDS, "the state decides, and the last sentence does not"),
]
