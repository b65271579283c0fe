"""The press release environment: the model reads a release and hands in a record of what happened by a tool call.

The data are ISAF press releases with hand-made labels (see `docs/environments/press_releases.md`). They tell of real
people who were killed or captured: do not show them where nobody asked for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any, get_args

from rlft.environments.contract.base import BaseEnv, Context
from rlft.environments.contract.marks import ToolArgumentsError, ToolSpec, tool
from rlft.environments.press_release_records import (
    PROVINCES,
    TOOL_NAME,
    EventType,
    Extraction,
    TargetGroup,
    contradictions,
    extract_calls,
    extraction_schema,
    is_dated,
    last_call,
    malformed,
    named_provinces,
    read_extraction,
)
from rlft.messages import make_call
from rlft.rewards.graders.json_values import read_json_object
from rlft.types import Message, Task, Trajectory

MAIN_FIELDS = ("event_type", "province", "target_group", "min_killed", "min_captured")
HONEST = 0.5
"""The score of an honest answer where the label cannot be read from the text: more than a guess can expect."""
FLAGS = ("killq", "captureq", "killcaptureraid", "airstrike", "noshotsfired")

# The most frequent value of each field; the date is empty, as the dates of the data are spread over three years.
CONSTANT = Extraction(
    start_date="", event_type=["detention"], province=["helmand"], target_group=["taliban"],
    min_killed=0, min_captured=3, min_leaders_killed=0, min_leaders_captured=0,
    killq=False, captureq=True, killcaptureraid=True, airstrike=False, noshotsfired=False,
)  # fmt: skip


def field_scores(given: Extraction, gold: Extraction, text: str) -> dict[str, float]:
    """Return {part: score} of every field and field group, and of `grounded` and `plausible`.

    `text` is the release.
    """
    named = named_provinces(text)
    honest = honest_provinces(gold.province, named)
    undated = not given.start_date and not is_dated(text)
    return {
        "start_date": max(day(given.start_date, gold.start_date), HONEST * undated),
        "event_type": overlap(given.event_type, gold.event_type),
        "province": max(overlap(given.province, gold.province), HONEST * (given.province in honest)),
        "target_group": overlap(given.target_group, gold.target_group),
        "min_killed": count(given.min_killed, gold.min_killed),
        "min_captured": count(given.min_captured, gold.min_captured),
        "leaders": float(_leaders(given) == _leaders(gold)),
        "flags": max(0.0, 1.0 - 0.5 * sum(getattr(given, flag) != getattr(gold, flag) for flag in FLAGS)),
        "grounded": float(is_grounded(given.province, gold.province, named)),
        "plausible": float(set(contradictions(given)) <= set(contradictions(gold))),
    }


def main_right(given: Extraction, gold: Extraction) -> float:
    """Return the share of the five main fields that are exactly the label's, whatever the order of lists."""
    return sum(_plain(given, name) == _plain(gold, name) for name in MAIN_FIELDS) / len(MAIN_FIELDS)


def overlap(given: Collection[str], gold: Collection[str]) -> float:
    """Return the number of values in both over the number in either (Jaccard index); 1 if both are empty.

    F1 would pay for hedging: two values of which one is right earn 2/3 with it and 1/2 here, as much as choosing one of
    them blindly.
    """
    either = set(given) | set(gold)
    return len(set(given) & set(gold)) / len(either) if either else 1.0


def count(given: int, gold: int) -> float:
    """Return 1 for the label's number, and 1/2 for a neighbour of it where both are 3 or more.

    Such labels often stand for words ("several" is 3, "numerous" 4), not for people who were counted.
    """
    if given == gold:
        return 1.0
    return 0.5 * (min(given, gold) >= 3 and abs(given - gold) == 1)


def day(given: str, gold: str) -> float:
    """Return 1 for the label's day, 1/2 for the day before or after, else 0. Both are ISO dates or empty."""
    if given == gold:
        return 1.0
    if not given or not gold:
        return 0.0
    return 0.5 * (abs((date.fromisoformat(given) - date.fromisoformat(gold)).days) == 1)


def honest_provinces(gold: Collection[str], named: Collection[str]) -> list[list[str]]:
    """Return the answers that the text supports although the label is another one, where it does not name the label's.

    There the annotator knew more than the text says, or erred: honest is an empty list, or the one province that the
    text names (`named`). Where the text names all provinces of the label, no other answer is honest.
    """
    if set(gold) <= set(named):
        return []
    return [[], list(named)] if len(named) == 1 else [[]]


def is_grounded(given: Collection[str], gold: Collection[str], named: Collection[str]) -> bool:
    """Return whether an answer names only provinces that the text names, and at least one where it names any.

    The label is grounded whatever the text says, and so is an honest answer (`honest_provinces`).
    """
    if set(given) == set(gold) or given in honest_provinces(gold, named):
        return True
    return set(given) <= set(named) if given else not named


def _leaders(extraction: Extraction) -> tuple[int, int]:
    return extraction.min_leaders_killed, extraction.min_leaders_captured


def _plain(extraction: Extraction, name: str) -> object:
    value = getattr(extraction, name)
    return set(value) if isinstance(value, list) else value


_RULES = """\
The user gives you a military press release about Afghanistan, or the part of one that deals with a single incident. \
Record that incident.
- start_date: the day it happened, not the day of the release. Leave it empty if the text does not tell.
- province, target_group: only what the text says; an empty list if it says nothing.
- Numbers are lower bounds. Read "several", "multiple" and "a few" as 3, "numerous" and "a number of" as 4, a plural \
without a number as 2. Leaders also count among the killed or captured.
- killq and captureq: whether anyone was killed or captured. killcaptureraid: whether it was a raid to kill or capture \
somebody. noshotsfired: only if the text says so.
"""
_WITH_TOOLS = (
    "Hand the record in with extract_data; the last valid call counts. validate_extraction tells you beforehand what "
    "is malformed or implausible. Then end with one short sentence."
)
_WEIGHTS = {
    "schema": 0.1, "leaders": 0.5, "flags": 0.5, "grounded": 0.25, "plausible": 0.25,
    "used_tool": 0.0, "extracted_right": 0.0, "lift": 0.0,
}  # fmt: skip
_FIELD_PARTS = tuple(field_scores(CONSTANT, CONSTANT, ""))


class PressReleases(BaseEnv):
    """Asks for one incident of a press release as an `Extraction`, and scores its fields against a label.

    Parts: one for each field or group of fields, and `schema`, `grounded`, `plausible`; all 0 without an extraction.
    Metrics: `used_tool` (there is an `extract_data` call, valid or not), `extracted_right` (the five main fields are
    right), and `lift`, the share of these that is right less the share that a constant answer has right on the same
    task. `lift` is `None` where nothing was extracted, so it shows whether the model extracts better, and not whether
    it calls the tool more often. A task's prompt is the text, its answer an object with the fields of `Extraction`.
    """

    def __init__(self, tools: bool = True) -> None:
        """Choose how the record is handed in: by a tool call in up to six turns, or without `tools` as JSON in one."""
        self.tools = tools
        self.max_turns = 6 if tools else 1

    def context(self, task: Task) -> Context:
        """Return the system prompt: what the fields mean, the annotator's rules, and how to hand the record in."""
        del task
        return Context(system_prompt=_RULES + (_WITH_TOOLS if self.tools else _as_json()))

    async def setup(self, task: Task) -> dict[str, Any]:
        """Return the state that `validate_extraction` needs: the provinces that the text names."""
        return {"named_provinces": list(named_provinces(_text(task)))}

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return `extract_data` and `validate_extraction`, or nothing without `tools`."""
        if not self.tools:
            return []
        hand_in = "Hand in what the text says of the incident. If you call it again, the last valid call counts."
        return [ToolSpec(TOOL_NAME, hand_in, extraction_schema(), Extraction), *await super().list_tools()]

    async def run_tool(self, rollout_id: str, tool_name: str, **args: Any) -> Any:
        """Acknowledge an extraction, or run `validate_extraction`; neither knows the label.

        Raises ToolArgumentsError for an extraction that is malformed.
        """
        if tool_name != TOOL_NAME:
            return await super().run_tool(rollout_id, tool_name, **args)
        if problems := malformed(args):
            raise ToolArgumentsError("; ".join(problems))
        return "Recorded."

    @tool
    def validate_extraction(self, extraction: dict[str, Any], state: dict[str, Any]) -> str:
        """Check an extraction before you hand it in: its form, and whether it contradicts itself or the text.

        Args:
            extraction: The arguments that extract_data would be called with, as one object.
        """
        problems = malformed(extraction)
        if read := read_extraction(extraction):
            problems = list(contradictions(read))
            unnamed = [name for name in read.province if name not in state["named_provinces"]]
            problems += [f"the text does not name the province {name}" for name in unnamed]
        return "\n".join(problems) or "Well formed and plausible. Nothing is handed in yet."

    async def compute_reward(self, completion: Trajectory, ground_truth: Any) -> dict[str, float | None]:
        """Score the one extraction that counts; `used_tool` is `None` without tools.

        Raises ValueError if the task's answer is no extraction.
        """
        gold, text = _gold(ground_truth), _text(completion.task)
        given = self._extraction(completion)
        used_tool = float(bool(extract_calls(completion))) if self.tools else None
        if given is None:
            nothing = dict.fromkeys(("schema", *_FIELD_PARTS, "extracted_right"), 0.0)
            return {**nothing, "used_tool": used_tool, "lift": None}
        scores = field_scores(given, gold, text)
        right = main_right(given, gold)
        return {
            "schema": 1.0,
            **scores,
            "extracted_right": float(right == 1.0),
            "used_tool": used_tool,
            "lift": right - main_right(CONSTANT, gold),
        }

    def reward_weights(self) -> dict[str, float]:
        """Return the weights: less than 1 for what follows from the main fields or needs no reading, 0 for metrics."""
        return dict(_WEIGHTS)

    def reward_minima(self) -> dict[str, float]:
        """Return 0 for every part but `lift`, which is a difference of two shares."""
        return {"*": 0.0, "lift": -1.0}

    def final_answer(self, completion: Trajectory) -> str | None:
        """Return the extraction as JSON with its lists sorted, so that equal ones are the same vote, or `None`."""
        given = self._extraction(completion)
        return None if given is None else _in_order(given).model_dump_json()

    def gold_completion(self, task: Task) -> str | list[Message] | None:
        """Return the label, handed in by a call and followed by a sentence, or without `tools` as JSON."""
        if task.answer is None:
            return None
        gold = _gold(task.answer)
        if not self.tools:
            return gold.model_dump_json()
        call: Message = {
            "role": "assistant",
            "content": "",
            "tool_calls": [make_call(TOOL_NAME, gold.model_dump(), "call_1")],
        }
        return [call, {"role": "assistant", "content": "The incident is recorded."}]

    def _extraction(self, completion: Trajectory) -> Extraction | None:
        return last_call(completion) if self.tools else read_extraction(read_json_object(completion.text))


def _as_json() -> str:
    """Return how to answer without tools, with the allowed values that a tool's schema would show."""
    allowed = {"event_type": get_args(EventType), "province": PROVINCES, "target_group": get_args(TargetGroup)}
    lists = "".join(f"- {name}: a list of {', '.join(values)}\n" for name, values in allowed.items())
    return (
        f"Allowed values:\n{lists}Answer with one JSON object and no other braces, each key once: "
        f"{', '.join(Extraction.model_fields)}. Numbers are integers; the last five are true or false."
    )


def _in_order(extraction: Extraction) -> Extraction:
    lists = ("event_type", "province", "target_group")
    return extraction.model_copy(update={name: sorted(getattr(extraction, name)) for name in lists})


def _text(task: Task) -> str:
    """Return the release, which is what the user says last."""
    return next((m["content"] for m in reversed(task.prompt) if m["role"] == "user"), "")


def _gold(answer: Any) -> Extraction:
    """Return the label; a value that stands in a list twice (two target groups that became `other`) counts once.

    Raises ValueError if it is no extraction.
    """
    fields = dict(answer) if isinstance(answer, Mapping) else {}
    fields = {name: list(dict.fromkeys(value)) if isinstance(value, list) else value for name, value in fields.items()}
    if gold := read_extraction(fields):
        return gold
    raise ValueError(f"the task's answer is no extraction: {'; '.join(malformed(fields))}")
