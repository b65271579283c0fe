"""OpenAI's graders as they are: their operations by value, and what is made of a file."""

import asyncio
import json
from pathlib import Path

import pytest

from rlft.config.environment import PLAIN
from rlft.config.section import SPECIFICATION
from rlft.environments.contract.loading import load_environment
from rlft.errors import ConfigError
from rlft.rewards.audit.warnings import runs_code
from rlft.rewards.scoring import score_rollouts
from rlft.rewards.specification.grader import Attempt, Helpers
from rlft.rewards.specification.graders.judged import Input
from rlft.rewards.specification.importing import import_grader
from rlft.rewards.specification.scoring import score_attempt
from rlft.sandbox.create import create_sandbox
from rlft.training.ledger import plan_training
from tests.rlft.attempts import answered, make_task

TEXT = {"input": "{{sample.output_text}}", "reference": "{{ item.answer }}"}
CHECK = {"type": "string_check", "name": "check", **TEXT}
LIKE = {"type": "text_similarity", "name": "like", **TEXT, "evaluation_metric": "rouge_l"}
PROGRAM = {
    "type": "python",
    "name": "program",
    "source": "def grade(sample, item):\n    print('noise')\n"
    "    return len(sample['output_text']) / len(item['answer'])\n",
}
NONE = Helpers()
ASK = [{"role": "user", "content": "Is {{sample.output_text}} polite?"}]


def total(grader, text, answer="Lima", helpers=NONE):
    specification = import_grader(grader, where="g.json")
    attempt = Attempt([{"role": "assistant", "content": text}], {"answer": answer}, helpers)
    scored = asyncio.run(score_attempt(specification, attempt))
    return sum(specification.criteria[name].weight * each.counts for name, each in scored.items())


@pytest.mark.parametrize(
    ("operation", "scores"),
    [
        ("eq", {"Lima": 1, "lima": 0, "Lima ": 0}),
        ("ne", {"Lima": 0, "lima": 1}),
        ("like", {"in Lima.": 1, "in lima": 0}),
        ("ilike", {"in lima": 1, "in Cusco": 0}),
    ],
)
def test_string_check(operation, scores):
    assert {text: total({**CHECK, "operation": operation}, text) for text in scores} == scores


def test_text_similarity_and_output_json():
    assert total(LIKE, "in Lima") == pytest.approx(2 / 3)  # one word of two and of one
    of_json = {**CHECK, "input": "{{sample.output_json.city}}", "operation": "eq"}
    assert total(of_json, '{"city": "Lima"}') == 1
    assert total(of_json, "Lima") == 0  # no JSON


def test_a_sum_becomes_criteria_and_any_other_formula_one():
    multi = {"type": "multi", "name": "both", "graders": {"a": {**CHECK, "operation": "eq"}, "b": LIKE}}
    summed = import_grader({**multi, "calculate_output": "0.7 * a + b * 0.3"}, where="g.json")
    assert {name: each.weight for name, each in summed.criteria.items()} == {"a": 0.7, "b": 0.3}
    for formula, value in (("0.7 * a + b * 0.3", 0.2), ("max(a, b) ^ 2", 4 / 9), ("min(a, b)", 0)):
        assert total({**multi, "calculate_output": formula}, "in Lima") == pytest.approx(value)


SCORED = {"type": "score_model", "name": "s", "model": "m", "input": ASK, "range": [0, 10]}


RUNS = """
def grade(sample, item):
    space = {}
    try:
        exec(sample["output_text"], space)
        found = [space["f"](x) for x in (1, 5, 100)]
    except BaseException as error:
        if isinstance(error, SystemExit):
            raise
        return 0.0
    return float(all(type(v) is int and v == x + item["k"] for v, x in zip(found, (1, 5, 100))))
"""
PAGE = (Path(__file__).resolve().parents[4] / "docs" / "guide" / "reward-specification.md").read_text(encoding="utf-8")
APART = PAGE.split("```python\n")[1].split("```")[0]
WRITES = "import os\nfor fd in range(1, 10):\n    try: os.write(fd, b'1.0\\n')\n    except OSError: pass\n"
GETS = "f = lambda x: x + next(v['k'] for v in values() if isinstance(v, dict) and 'k' in v)\n"
SIGNS = """
import os, sys
frame = sys._getframe()
while frame is not None:
    known = frame.f_locals
    if "sign" in known and "out" in known:
        os.write(known["out"], f"\\n{known['sign']} 1.0\\n".encode())
        os._exit(0)
    frame = frame.f_back
"""
FRAMES = """
import sys
def values():
    frame = sys._getframe()
    while frame:
        yield from list(frame.f_locals.values())
        frame = frame.f_back
"""


def program_score(source, code):
    """Return what a program scores code that should add 7, or `error`."""
    specification = import_grader({**PROGRAM, "source": source}, where="g.json")
    attempt = Attempt([{"role": "assistant", "content": code}], {"k": 7}, Helpers(sandbox=create_sandbox()))
    try:
        return asyncio.run(score_attempt(specification, attempt))["program"].counts
    except ValueError:
        return "error"


@pytest.mark.parametrize(
    ("code", "beside", "apart"),
    [
        ("f = lambda x: x + 7", 1, 1),
        ("f = lambda x: x + 6", 0, 0),
        (WRITES + "os._exit(0)", 0, 0),
        (WRITES + "f = lambda x: 0", 0, 0),
        ("import sys; sys.exit(0)", 0, 0),
        ("import os; os.kill(os.getpid(), 9)", 0, 0),
        ("import os, signal; signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), 2)", 0, 0),
        ("raise KeyboardInterrupt", 0, 0),
        ("import os; os.kill(os.getppid(), 15)", 0, 0),  # in a process of its own it kills the grader
        ("import os; os.kill(-1, 9)", 0, 0),
        (SIGNS, 1, 0),  # what signs a score is found, too
        ("import json\njson.dumps = repr = lambda *_: '1.0'\nf = lambda x: 0", 0, 0),
        ("import builtins\nbuiltins.float = builtins.repr = lambda *_: 1.0\nf = lambda x: 0", 1, 0),
        (FRAMES + GETS, 1, 0),  # what a grader that runs code beside the answer cannot prevent
        ("import builtins\nbuiltins.all = lambda *_: True\nf = lambda x: 0", 1, 0),
    ],
)
def test_what_code_of_an_attempt_can_do_to_a_program(bubblewrap, code, beside, apart):
    assert (program_score(RUNS, code), program_score(APART, code)) == (beside, apart)


RAISES = """
def grade(sample, item):
    space = {}
    exec(sample["output_text"], space)
    return float(space["f"](1) == 8)
"""


def test_an_attempt_that_breaks_the_program_has_no_score_and_the_ledger_names_it(bubblewrap):
    texts = {"right": "f = lambda x: x + 7", "wrong": "f = lambda x: 0"}
    texts |= {"kills": "import os; os.kill(os.getpid(), 11)", "raises": "raise KeyError('mine')", "typo": "f = lambda"}
    content = {"criteria": {"c": {"says": "It adds.", "grader": {"type": "python", "source": RAISES}}}}
    environment = load_environment(PLAIN, {SPECIFICATION: json.dumps(content)})
    task = make_task("t", "Add 7.", "7")
    rollouts = answered(task, *texts.values())
    rewards = score_rollouts(rollouts, {"t": task}, environment, weights={}, full=None, timeout_seconds=30)
    assert [each.total for each in rewards] == [1.0, 0.0, 0.0, None, None]
    why = dict(zip(texts, [each.error and each.error.why for each in rewards], strict=True))
    assert (why["right"], why["wrong"], why["kills"]) == (None, None, None)
    assert "KeyError: 'mine'" in why["raises"]
    assert "SyntaxError" in why["typo"]
    fates = plan_training(rollouts, rewards, scale="group", mask_truncated_completions=False).fates
    assert [str(fate) for fate in fates.values()].count("errored:reward") == 2


def test_code_in_a_process_of_its_own_cannot_look_into_the_grader(bubblewrap):
    looks = "import os\ntry:\n    os.listdir(f'/proc/{os.getppid()}/fd')\nexcept OSError:\n    f = lambda x: x + 7\n"
    assert program_score(APART, looks) == 1


def test_a_program_that_runs_into_a_limit_scores_the_lowest(bubblewrap):
    floods = "import sys\nwhile True: sys.stderr.write('x' * 100_000)"
    assert program_score(RUNS, floods) == 0


def test_a_program_that_raises_or_does_not_start_is_an_error(bubblewrap):
    assert program_score("def grade(sample, item):\n    return item['absent']\n", "x") == "error"
    assert program_score("import no_such_module\ndef grade(sample, item):\n    return 1.0\n", "x") == "error"
    assert program_score("def grade(sample, item):\n    return float('nan')\n", "x") == "error"


def test_a_program_is_told_where_it_fails(bubblewrap):
    source = "def grade(sample, item):\n    return item['absent']\n"
    specification = import_grader({**PROGRAM, "source": source}, where="g.json")
    attempt = Attempt([{"role": "assistant", "content": "x"}], {}, Helpers(sandbox=create_sandbox()))
    with pytest.raises(
        ValueError, match=r"(?s)File \"graded.py\", line 2, in grade\s+return item\['absent'\].*KeyError"
    ):
        asyncio.run(score_attempt(specification, attempt))


def test_code_in_a_process_of_its_own_cannot_read_the_source_of_the_grader(bubblewrap):
    finds = (
        "import glob, os\n"
        "texts = [open(path).read() for path in glob.glob('/program/**', recursive=True) if os.path.isfile(path)]\n"
        "f = lambda x: x + 7 if texts and not any('each + item' in text for text in texts) else 0\n"
    )
    assert program_score(APART, finds) == 1


@pytest.mark.parametrize(
    ("source", "runs"),
    [
        (RUNS, True),
        (APART, False),  # its `exec` stands in a text, which runs elsewhere
        ("import builtins\ndef grade(sample, item):\n    return builtins.eval(sample['output_text'])", True),
        ("import runpy\ndef grade(sample, item):\n    runpy.run_path('x')", True),
        ("import re\nWORD = re.compile('x')\ndef grade(sample, item):\n    return 1.0", False),
        ("def grade(sample, item):\n    return float(sample['output_text'] == 'exec(x)')", False),
        ("def grade(:", False),
    ],
)
def test_a_program_that_runs_code_itself_is_known_by_its_calls(source, runs):
    assert runs_code(source) is runs


@pytest.mark.parametrize(
    ("formula", "low", "high"),
    [("max(a, b)", 0, 10), ("a * b", 0, 10), ("max(a, b) / 10", 0, 1), ("a - b * 2 - 1", -3, 9), ("1 + a", 0, 11)],
)
def test_a_formula_has_the_bounds_of_its_graders(formula, low, high):
    multi = {"type": "multi", "name": "m", "graders": {"a": SCORED, "b": {**CHECK, "operation": "eq"}}}
    criterion = import_grader({**multi, "calculate_output": formula}, where="g.json").criteria["m"]
    assert (criterion.minimum, criterion.maximum, criterion.weight) == (low, high, 1)
    with pytest.raises(ConfigError, match=r"(?s)'a / b' has no bound.*bound that part"):
        import_grader({**multi, "calculate_output": "a / b"}, where="g.json")


def test_a_program_that_is_nested_too_deeply_is_told_as_such():
    for inner in ("-" * 5000 + "1", "(" * 250 + "1" + ")" * 250, "+".join(["1"] * 100_000)):
        source = f"def grade(sample, item):\n    return {inner}\n"
        with pytest.raises(
            ConfigError, match=r"nested too deeply|the source is no Python: too many nested parentheses"
        ):
            import_grader({**PROGRAM, "source": source}, where="g.json")


def test_the_bounds_of_a_program_are_told():
    multi = {"type": "multi", "name": "m", "graders": {"a": PROGRAM}, "calculate_output": "max(a, 0)"}
    for grader in (PROGRAM, multi):
        assert "taken to score from 0 to 1" in import_grader(grader, where="g.json").says
    assert "taken to score" not in import_grader(LIKE, where="g.json").says


def test_a_program_is_run_in_the_sandbox(bubblewrap):
    helpers = Helpers(sandbox=create_sandbox())
    assert total(PROGRAM, "Li", helpers=helpers) == 0.5
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        total(PROGRAM, "Li", answer="", helpers=helpers)


@pytest.mark.parametrize(
    ("grader", "said"),
    [
        ({**LIKE, "evaluation_metric": "meteor"}, "WordNet"),
        ({**LIKE, "evaluation_metric": "cosine"}, "hosted embeddings"),
        ({**CHECK, "operation": "is"}, "operation"),
        ({**PROGRAM, "source": "x = 1"}, "defines no grade"),
        ({"type": "multi", "name": "m", "graders": {"a": LIKE}, "calculate_output": "a + b"}, "uses b"),
        (
            {"type": "label_model", "model": "m", "input": ASK, "labels": ["a"], "passing_labels": ["b"]},
            "the labels are a",
        ),
        ({"type": "other"}, "no grader"),
        ([], "no grader"),
    ],
)
def test_what_is_refused_says_why(grader, said):
    with pytest.raises(ConfigError) as caught:
        import_grader(grader, where="g.json")
    assert said in str(caught.value)


def test_models_are_parsed_with_their_ranges():
    found = import_grader(
        {"type": "score_model", "name": "s", "model": "m", "input": ASK, "range": [-1.0, 5.0]}, where=""
    )
    criterion = found.criteria["s"]
    assert (criterion.minimum, criterion.maximum) == (-1.0, 5.0)
    assert criterion.grader.needs_judge()


def test_a_name_that_no_part_can_have_is_changed_and_a_long_one_cut():
    assert list(import_grader({**LIKE, "name": " a/b:c "}, where="g.json").criteria) == ["a b c"]
    assert list(import_grader({**LIKE, "name": "n" * 99}, where="g.json").criteria) == ["n" * 80]


def test_a_sum_with_a_grader_that_is_subtracted_has_a_penalty():
    multi = {"type": "multi", "name": "both", "graders": {"a": {**CHECK, "operation": "eq"}, "b": LIKE}}
    found = import_grader({**multi, "calculate_output": "a - 0.5 * b"}, where="g.json").criteria
    assert {name: each.weight for name, each in found.items()} == {"a": 1.0, "b": -0.5}


def test_a_range_above_zero_has_the_minimum_zero():
    found = import_grader({**SCORED, "range": [2, 10]}, where="g.json").criteria["s"]
    assert (found.minimum, found.maximum) == (0.0, 10.0)  # what cannot be read counts as the lowest: nothing


def test_a_developer_speaks_to_the_judge_as_the_system_does():
    def said(role):
        return Input(role=role, content="Be strict.").filled(Attempt((), {}))

    assert said("developer") == said("system") == ("system", "Be strict.")
    assert said("user") == ("user", "Be strict.")
