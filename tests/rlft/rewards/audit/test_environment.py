"""What an author can get wrong comes out as a sentence with its place and way out; what is right as an empty list."""

from __future__ import annotations

import json
import re
import time

import pytest

import rlft
from rlft.config import SourceConfig
from rlft.messages import make_call
from rlft.rewards.audit.environment import check_environment, check_named
from tests.rlft.attempts import make_task

TASKS = [make_task(f"t{n}", f"Capital of country {n}?", f"City {n}") for n in range(1, 5)]


def asks(title, name="look_up"):
    call = make_call(name, {"title": title}, "1")
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def says(text):
    return {"role": "assistant", "content": text}


class Capitals(rlft.BaseEnv):
    """All is well here; the tests break one thing at a time."""

    async def setup(self, task):
        return {"read": []}

    @rlft.tool
    def look_up(self, title: str, state: dict) -> str:
        """Read an article.

        Args:
            title: Its title.
        """
        state["read"].append(title)
        return f"About {title}"

    @rlft.reward(minimum=0.0)
    def exact(self, text, ground_truth):
        return float(text == ground_truth)

    @rlft.metric
    def articles(self, state):
        return float(len(state["read"]))

    def gold_completion(self, task):
        return [asks(task.answer), says(task.answer)]


def check(environment, tasks=TASKS, seconds=2.0):
    return check_environment(environment, tasks, timeout_seconds=seconds)


def test_the_call_that_failed_is_the_one_that_is_named():
    class Says(Capitals):
        @rlft.tool
        def look_up(self, title: str, state: dict) -> str:
            """Read an article.

            Args:
                title: Its title.
            """
            return "error: this city's newspaper"

        def gold_completion(self, task):
            return [asks(task.answer), asks(task.answer, "look_upp"), says(task.answer)]

    (problem,) = check(Says()).problems
    assert problem.startswith("tool look_upp: a call of the gold conversation failed: error: there is no tool named")


def test_gold_as_openai_writes_it_is_played():
    class Written(Capitals):
        def gold_completion(self, task):
            function = {"name": "look_up", "arguments": json.dumps({"title": task.answer})}
            asks = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]}
            return [asks, says(task.answer)]

    report = check(Written())
    assert (report.problems, report.gold) == ((), True)
    shown = report.to_json()["rollout"]
    asked, told = shown["messages"][1:3]
    assert asked["tool_calls"] == [make_call("look_up", {"title": "City 1"}, "call00000")]
    assert (told["tool_call_id"], shown["state"]) == ("call00000", {"read": ["City 1"]})


def test_a_sound_environment_has_no_problems_and_its_gold_is_shown():
    report = check(Capitals())
    assert (report.problems, report.notes) == ((), ())
    assert (report.gold, report.silence) == (True, True)
    shown = report.to_json()
    assert set(shown) == {"gold", "silence", "tools", "problems", "rollout"}
    assert shown["tools"] == [
        {
            "name": "look_up",
            "description": "Read an article.",
            "parameters": {
                "properties": {"title": {"description": "Its title.", "type": "string"}},
                "required": ["title"],
                "type": "object",
                "additionalProperties": False,
            },
        }
    ]
    assert [m["content"] for m in shown["rollout"]["messages"]] == [
        "Capital of country 1?", "", "About City 1", "City 1",
    ]  # fmt: skip
    assert shown["rollout"]["state"] == {"read": ["City 1"]}
    assert (shown["rollout"]["total"], shown["rollout"]["parts"]) == (1.0, {"exact": 1.0, "articles": 1.0})
    assert json.loads(json.dumps(shown)) == shown


def variant(**methods):
    """`Capitals` with other methods."""
    return type("Variant", (Capitals,), methods)()


def raises(*_, **__):
    raise ValueError("boom")


def sleeps(*_, **__):
    time.sleep(30)


def mark(method):
    return rlft.reward(method)


def tool_of(function):
    function.__name__ = "look_up"
    return rlft.tool(function)


class Undocumented(rlft.BaseEnv):
    """Not a `Capitals`: a method without a docstring would have that of the base class."""

    @rlft.tool
    def look_up(self, title: str) -> str:
        return title

    @rlft.reward
    def exact(self, text, ground_truth):
        return float(text == ground_truth)


def test_a_tool_without_a_docstring_is_named():
    (problem,) = check(Undocumented()).problems
    assert problem == "tool look_up: it has no docstring; what to do: say in one what the tool does"


def untyped(self, title) -> str:
    """Read an article."""
    return title


def half_documented(self, title: str, state: dict) -> str:
    """Read an article."""
    state["read"].append(title)
    return "text"


def crashing(self, title: str) -> str:
    """Read an article.

    Args:
        title: Its title.
    """
    raise KeyError(title)


def slow_tool(self, title: str) -> str:
    """Read an article.

    Args:
        title: Its title.
    """
    time.sleep(30)
    return title


MISTAKES = [
    ("no type", {"look_up": tool_of(untyped)}, ["tool look_up: title has no type", "what to do: write title: str"]),
    ("argument not described", {"look_up": tool_of(half_documented)},
     ["tool look_up: nothing says what title should be", "Args:"]),
    ("no tools but gold calls", {"list_tools": lambda self: []},
     ["tool look_up: a call of the gold conversation failed: error: there is no tool named", "mend the tool"]),
    ("tools that are no list", {"list_tools": lambda self: {"name": "x"}}, ["list_tools: returned dict"]),
    ("tools that raise", {"list_tools": raises}, ["Variant.list_tools: ValueError: boom, at ", "what to do"]),
    ("description empty", {"list_tools": lambda self: [{"name": "look_up", "parameters": {"title": "Its title."}}]},
     ["tool look_up: it has no description"]),
    ("tool crashes", {"look_up": tool_of(crashing)},
     ["tool look_up: a call of the gold conversation failed: KeyError: 'City 1', at ", "audit/test_environment.py:",
      " (gold on task t1, and 3 more)"]),
    ("setup raises", {"setup": raises},
     ["could not be scored on 4 tasks, for example t1: setup: ValueError: boom, at tests/rlft/rewards/audit/test_env",
      "what to do: context and setup"]),
    ("context raises", {"context": raises}, ["setup: ValueError: boom", "context and setup"]),
    ("state is no JSON", {"setup": lambda self, task: {"read": [], "seen": {1}}},
     ["state: TypeError: Object of type set is not JSON serializable", "keep text, numbers"]),
    ("respond raises", {"respond": raises}, ["respond: ValueError: boom", "return text, a message, or None"]),
    ("reward raises", {"exact": mark(lambda self, text: raises())},
     ["compute_reward: ValueError: boom, at tests/rlft/rewards/audit/test_environment.py:",
      "what to do: return {part: a finite number"]),
    ("reward exits", {"exact": mark(lambda self, text: exit(3))}, ["compute_reward: SystemExit: 3"]),
    ("reward is text", {"exact": mark(lambda self, text: "good")}, ["compute_reward: TypeError: part 'exact' is str"]),
    ("reward is NaN", {"exact": mark(lambda self, text: float("nan"))}, ["compute_reward: ValueError", "is nan"]),
    ("rewards are no dict", {"compute_reward": lambda self, completion, ground_truth: "1.0"},
     ["compute_reward: TypeError: returned str '1.0', not a dict of {part: score} or a number"]),
    ("reward raises on other texts", {"exact": mark(lambda self, text, ground_truth: float(int(text[5:]) > 0))},
     ["empty, echo, constant, ", "on 4 tasks, for example t1: compute_reward: ValueError: invalid literal for int"]),
    ("final answer is a number", {"final_answer": lambda self, completion: 3},
     ["final_answer: TypeError", "text or None"]),
    ("gold raises", {"gold_completion": raises},
     ["gold_completion: failed on 4 of 4 tasks, for example t1: ValueError: boom, at tests/rlft/rewards/audit/",
      "what to do: mend this line"]),
    ("gold is a number", {"gold_completion": lambda self, task: 4}, ["MessageError: int 4 is no list of messages"]),
    ("gold is a message", {"gold_completion": lambda self, task: says("x")},
     ["gold_completion: failed on 4 of 4 tasks, for example t1: MessageError: dict"]),
    ("gold is a user", {"gold_completion": lambda self, task: [{"role": "user", "content": "x"}]},
     ["message 1 has the role user; give what the assistant says alone"]),
    ("gold call without name", {"gold_completion": lambda self, task: [
        {"role": "assistant", "content": "", "tool_calls": [{"arguments": {}}]}]},
     ["MessageError: message 1 has tool call 1 that cannot be read: it has no \"name\""]),
    ("no gold", {"gold_completion": lambda self, task: None},
     ["gold_completion: no task has a gold answer", "what to do: give the tasks an answer (--answer FIELD)"]),
    ("gold for some", {"gold_completion": lambda self, task: None if task.id == "t2" else
                       Capitals.gold_completion(self, task)}, ["returned None (on 1 task, for example t2)"]),
    ("gold is cut", {"max_turns": 1},
     ["gold_completion: 1 of its 2 messages were said before the conversation was over", "raise max_turns"]),
    ("gold is not full", {"exact": mark(lambda self, text, ground_truth: 0.9 * (text == ground_truth))},
     ["reward audit: gold is not full on 4 tasks", "what to do: let gold earn 1"]),
    ("a reward of 10", {"exact": mark(lambda self, text, ground_truth: 10.0 * (text == ground_truth))},
     ["gold could not be scored on 4 tasks, for example t1: compute_reward: part 'exact' is above its maximum: 10 of 1",
      "what to do: return 1 for what is full, or declare another maximum"]),
    ("a reward of 10 on one task", {"exact": mark(lambda self, text, ground_truth:
                                    (10.0 if text == "City 3" else 1.0) * (text == ground_truth))},
     ["on 1 task, for example t3: compute_reward: part 'exact' is above its maximum: 10 of 1"]),
    ("a penalty that pays", {"reward_weights": lambda self: {"exact": 1.0, "articles": -1.0},
                             "articles": mark(lambda self, text, ground_truth: -2.0 * (text == ground_truth))},
     ["compute_reward: part 'articles' is a penalty that pays: -2 with the weight -1",
      "what to do: return 0 or more from a penalty"]),
    ("no return", {"exact": mark(lambda self, text, ground_truth: None)},
     ["compute_reward: no part with a weight applies (parts: {'exact': None, 'articles': 1.0})"]),
    ("compute_reward without return", {"compute_reward": lambda self, completion, ground_truth: None},
     ["compute_reward: TypeError: returned None, not a dict of {part: score} or a number: is a `return` missing?",
      "what to do: return {part: a finite number"]),
    ("silence is paid", {"exact": mark(lambda self, text, ground_truth: 1.0 if text == ground_truth else 0.1)},
     ["compute_reward: an empty answer earns 0.1 from", "what to do: pay nothing"]),
    ("an attack is paid", {"exact": mark(lambda self, text, ground_truth: float(bool(text)))},
     ["reward audit: echo earns as much as gold"]),
]  # fmt: skip


@pytest.mark.parametrize(("methods", "said"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_a_sentence_with_place_and_way_out(methods, said):
    report = check(variant(**methods))
    text = "\n".join(report.problems)
    assert report.problems
    for part in said:
        assert part in text
    assert all("what to do: " in problem for problem in report.problems), text
    assert "Traceback" not in text
    assert len(set(report.problems)) == len(report.problems)


def test_a_part_without_return_is_the_one_problem():
    # the other part pays every city: as long as one is missing, it says nothing that other cities earn as much
    report = check(
        variant(queue=mark(lambda self: None), exact=mark(lambda self, text: float(text.startswith("City"))))
    )
    (problem,) = report.problems
    assert problem.startswith("reward audit: part queue is None on every task; what to do: return a score")
    assert check(variant(queue=rlft.metric(lambda self: None))).problems == ()  # a metric need not apply
    some = check(variant(queue=mark(lambda self, task, text: float(bool(text)) if task.id == "t4" else None)))
    assert some.problems == ()


def test_the_words_of_an_error_are_no_way_out():
    def says_more(self, text):
        raise ValueError("boom; what to do: call me")

    (problem,) = check(variant(exact=mark(says_more))).problems
    assert "on 4 tasks, for example t1: compute_reward: ValueError: boom; what to do: call me, at " in problem
    assert problem.endswith("; what to do: return {part: a finite number, or None} for whatever a model says, within "
                            "the time limit")  # fmt: skip


def test_the_audit_does_not_say_again_that_golds_are_missing():
    problems = check(variant(gold_completion=lambda self, task: None, exact=mark(lambda self, text: 1.0))).problems
    said = [problem.partition(" on ")[0].partition(",")[0] for problem in problems]
    assert [re.sub(r"\b[0-9]{2} more kinds", "N more kinds", each) for each in said] == [
        "gold_completion: no task has a gold answer",
        "compute_reward: an empty answer earns 1 from {'exact': 1.0",
        "reward audit: empty is full", "reward audit: echo is full", "reward audit: constant is full",
        "reward audit: colon is full", "reward audit: thought_process is full",
        "reward audit: N more kinds of attack do the same: step_by_step",
    ]  # fmt: skip


def test_a_text_gold_that_needs_tools_is_told_with_its_own_way_out_whatever_else_the_audit_finds():
    tools = {"gold_completion": rlft.BaseEnv.gold_completion}
    looked = mark(lambda self, text, state: float(bool(state["read"]) or text == "I do not know."))
    for exact, others in ((mark(lambda self, state: float(bool(state["read"]))), 0), (looked, 1)):
        problems = check(variant(**tools, exact=exact)).problems
        assert problems[0] == (
            "gold_completion: the answer as text, without a call of a tool, is full on no task: no gold is known; "
            "what to do: define gold_completion(task): the assistant's messages in order, with their tool_calls"
        )
        told = ["reward audit: constant is full"][:others]  # and any call of the tool earns the full reward
        assert [problem.partition(" on ")[0] for problem in problems[1:]] == [*told, "reward audit: every_tool is full"]


def test_declared_maxima_make_gold_full():
    ten = rlft.reward(maximum=10)(lambda self, text, ground_truth: 10.0 * (text == ground_truth))
    report = check(variant(exact=ten))
    assert (report.problems, report.gold) == ((), True)
    assert report.reward is not None
    assert report.reward.total == 10.0


def test_what_no_single_sentence_spoils_is_still_said():
    report = check(variant(look_up=tool_of(half_documented)))
    assert len(report.problems) == 1
    assert (report.gold, report.silence) == (True, True)
    report = check(variant(exact=mark(lambda self, text, ground_truth: 1.0 if text == ground_truth else 0.1)))
    assert (report.gold, report.silence) == (True, False)


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        (
            {"exact": mark(sleeps)},
            "the reward hangs: the first 8 scores have no result, the last as ScoringTimeout: no score",
        ),
        ({"look_up": tool_of(slow_tool)}, "tool look_up: a call of the gold conversation failed: error: look_up took"),
        ({"setup": sleeps}, "setup: Late: longer than 0.2 s"),
        ({"list_tools": sleeps}, "list_tools: no answer within 0.2 s"),
    ],
    ids=["reward", "tool", "setup", "list_tools"],
)
@pytest.mark.slow
def test_what_hangs_is_left_behind(methods, said):
    started = time.monotonic()
    report = check(variant(**methods), TASKS[:2], seconds=0.2)
    assert re.search(said, "\n".join(report.problems))
    assert time.monotonic() - started < 25


def test_one_gold_for_all_is_a_note_and_no_problem():
    report = check(Capitals(), TASKS[:1])
    assert report.problems == ()
    (note,) = report.notes
    assert note.startswith("no gold is a wrong answer at another task: ")


def test_no_tasks_is_a_problem():
    assert check(Capitals(), []).problems != ()
    assert not check(Capitals(), []).gold


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"q": f"{n}?", "a": str(n), "k": n}) + "\n" for n in range(3)))
    return SourceConfig(source="jsonl", path=str(path), prompt="q", answer="a", id="k")


SOUND = "import rlft\n\nclass E(rlft.BaseEnv):\n    @rlft.reward\n    def r(self, text, ground_truth):\n"


@pytest.mark.parametrize(
    ("source", "name", "said"),
    [
        (SOUND + "        return float(text == ground_truth)\n", "E", ""),
        ("import nowhere_to_be_found\n", "E", "its import failed: ModuleNotFoundError"),
        ("class E(:\n", "E", "its import failed: SyntaxError"),
        ("raise SystemExit(3)\n", "E", "its import failed: SystemExit: 3\n"),
        (SOUND + "        return 1.0\n", "F", "there is no environment 'F'; what to do: name a"),
        ("import rlft\nclass E(rlft.BaseEnv):\n    pass\n", "E", "E does not say what an attempt is worth"),
        ("class E:\n    pass\n", "E", "there is no environment 'E'; what to do: name a class"),
    ],
)
def test_an_environment_and_rows_are_found_by_name(tmp_path, rows, source, name, said):
    (tmp_path / "mine.py").write_text(source)
    report = check_named(f"{tmp_path}/mine.py:{name}", {}, rows)
    assert bool(report.problems) == bool(said)
    assert said in "".join(report.problems)
    if not said:
        assert report.to_json()["rollout"]["task_id"] == "0"


def test_arguments_and_rows_that_do_not_fit_are_problems(tmp_path, rows):
    (tmp_path / "mine.py").write_text(SOUND + "        return float(text == ground_truth)\n")
    name = f"{tmp_path}/mine.py:E"
    (problem,) = check_named(name, {"colour": "red"}, rows).problems
    assert problem.startswith("environment.kwargs: E cannot be built")
    (problem,) = check_named(name, {}, rows.model_copy(update={"answer": "missing"})).problems
    assert "has no field 'missing'" in problem
    (problem,) = check_named(name, {}, rows.model_copy(update={"path": "absent.jsonl"})).problems
    assert problem.startswith("absent.jsonl: no such file")


def test_a_field_that_may_have_the_answer_is_pointed_at(tmp_path):
    (tmp_path / "mine.py").write_text(SOUND + "        return float(text == ground_truth)\n")
    file = tmp_path / "solved.jsonl"
    file.write_text('{"prompt": "a", "solution": "b", "level": 3}\n')
    source, name = SourceConfig(source="jsonl", path=str(file)), f"{tmp_path}/mine.py:E"
    [note] = [note for note in check_named(name, {}, source).notes if "--answer" in note]
    assert note.endswith("name that with --answer FIELD (a row has: prompt, solution, level)")
    report = check_named(name, {}, source.model_copy(update={"answer": "solution"}))
    assert (report.problems, [note for note in report.notes if "--answer" in note]) == ((), [])
    [note] = check_named(name, {}, source.model_copy(update={"prompt": "asked"})).notes
    assert "--prompt, --answer and --id" in note
