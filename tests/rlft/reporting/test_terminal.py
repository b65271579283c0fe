"""What models, tools, tasks and rewards say reaches a person's terminal as text, whichever command prints it."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from cli import app as cli
from cli import doctor
from cli.doctor import Finding
from cli.guard import guarded
from cli.result import show_summary
from mlops.home.folder import PROJECT
from mlops.runs import results as stored_rollouts
from mlops.stacks import file as stack_file
from mlops.summary.summary import Difference, Ledger, Promotion, Seconds, Summary
from rlft.errors import RlftError
from rlft.messages import make_call
from rlft.reporting import bars as progress
from rlft.reporting import terminal
from rlft.reporting.terminal import Terminal
from rlft.texts.secrets import hide_in_logs, resolve
from rlft.types import Rewards, Rollouts
from tests.e2e.conftest import TINY
from tests.factories import make_reward, make_rollout, user

EVIL = "\x1b]0;title\x07 \x9b31m \u202eright\u2066 \x7f\r [red]red[/red] [/] :smile: \ud83d"
SEEN = "\\x1b]0;title\\x07 \\x9b31m \\u202eright\\u2066 \\x7f\\r [red]red[/red] [/] :smile: \\ud83d"
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def rlft(tmp_path, monkeypatch):
    """Run a command in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLFT_HOME", str(tmp_path / "home"))
    for name in ("ZENML_LOGGING_VERBOSITY", "TRANSFORMERS_VERBOSITY", "MLFLOW_LOGGING_LEVEL"):
        monkeypatch.setenv(name, "ERROR")
    for console in (terminal.errors, terminal.console):
        monkeypatch.setattr(console, "_width", 2000)
    return lambda *arguments: CliRunner().invoke(cli.make_app(), list(map(str, arguments)))


def is_harmless(text: str) -> bool:
    return not STEERING.search(text)


def environment(body: str) -> str:
    return (
        "import logging\nimport rlft\n\nlog = logging.getLogger('an.environment')\n"
        f"EVIL = {EVIL!r}\n\n\nclass Hostile(rlft.BaseEnv):\n"
        f"    async def compute_reward(self, completion, ground_truth):\n        {body}\n"
    )


@pytest.mark.slow
def test_the_exception_of_a_reward_in_an_audit(rlft, tmp_path):
    (tmp_path / "hostile.py").write_text(environment("raise ValueError(EVIL + completion.text)"))
    result = rlft("audit", TINY, "--set", "environment.name=hostile.py:Hostile")
    assert result.exit_code == 2
    assert "\\x1b]0;title\\x07 \\x9b31m \\u202eright\\u2066 \\x7f\\r [red]red[/red]" in result.stdout  # the table
    assert "\\x1b]0;title\\x07" in result.stderr  # the log
    assert is_harmless(result.output)


@pytest.mark.slow
def test_the_log_of_an_environment(rlft, tmp_path):
    lines = ["log.warning('said %s', EVIL)", "log.error('failed', exc_info=ValueError(EVIL))", "return {'x': 1.0}"]
    (tmp_path / "hostile.py").write_text(environment("\n        ".join(lines)))
    logger = logging.getLogger("an.environment")
    written = io.StringIO()
    logger.addHandler(handler := logging.StreamHandler(written))  # any handler, such as a library's
    try:
        rlft("audit", TINY, "--set", "environment.name=hostile.py:Hostile")
    finally:
        logger.removeHandler(handler)
    assert f"said {SEEN}" in written.getvalue()
    assert f"ValueError: {SEEN}" in written.getvalue()
    assert is_harmless(written.getvalue())


def test_no_line_of_a_command_shows_the_value_of_a_variable(monkeypatch):
    monkeypatch.setenv("RLFT_TEST_TERMINAL_KEY", "Yx7-vault-of-a-terminal")
    logger, written = logging.getLogger("an.environment"), io.StringIO()
    logger.addHandler(handler := logging.StreamHandler(written))
    try:
        with guarded(False, None):
            key = resolve("env:RLFT_TEST_TERMINAL_KEY", "k")
            for _ in range(2):
                logger.error("with %s", key, exc_info=ValueError(key))
                hide_in_logs()  # as the pipeline's init hook does
    finally:
        logger.removeHandler(handler)
    assert written.getvalue() == "with ***\nValueError: ***\n" * 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "code", "said"),
    [("SystemExit", 2, "its import failed: SystemExit"), ("BaseException", 1, "unexpected error BaseException")],
)
def test_an_environment_that_ends_the_process(rlft, tmp_path, error, code, said):
    text = environment("return {'x': 1.0}").replace("class Hostile", f"raise {error}(EVIL)\n\n\nclass Hostile")
    (tmp_path / "hostile.py").write_text(text)
    result = rlft("audit", TINY, "--set", "environment.name=hostile.py:Hostile")
    assert result.exit_code == code
    assert said in result.stderr
    assert is_harmless(result.output)


@pytest.mark.parametrize("error", [RlftError(EVIL, where=EVIL, fix=EVIL), ValueError(EVIL)])
def test_an_error_and_its_trace(rlft, monkeypatch, tmp_path, error):
    def fail(*_):
        raise error

    monkeypatch.setattr("cli.run.load_config", fail)
    result = rlft("run", "x.yaml", "--summary", tmp_path / "summary.json")
    assert SEEN in result.stderr
    assert is_harmless(result.output)
    traces = [file.read_text() for file in (tmp_path / "home" / "logs").glob("*.txt")]
    assert [SEEN in trace and is_harmless(trace) for trace in traces] == [True] * isinstance(error, ValueError)
    assert EVIL in json.loads((tmp_path / "summary.json").read_text())["error"]  # what programs read is the text itself


def test_environments_check_as_text_and_as_json(rlft, tmp_path):
    (tmp_path / "hostile.py").write_text(environment("return {EVIL: float(completion.text == ground_truth)}"))
    said = EVIL.removesuffix(" \ud83d")  # no row may have half a surrogate pair
    (tmp_path / "rows.jsonl").write_text(json.dumps({"prompt": said, "answer": "a" + said}) + "\n")
    arguments = ["environments", "check", "hostile.py:Hostile", "--tasks", "rows.jsonl"]
    result = rlft(*arguments)
    # Asked, answered, the name of the part, and of the part that pays gold most.
    assert result.stdout.count(SEEN.removesuffix(" \\ud83d")) == 4
    assert is_harmless(result.output)
    result = rlft(*arguments, "--json")
    assert is_harmless(result.stdout)
    assert json.loads(result.stdout)["rollout"]["messages"][0]["content"] == said


def hostile_round() -> stored_rollouts.ScoredRound:
    call = make_call(EVIL, {EVIL: EVIL}, EVIL)
    messages = (
        user(EVIL),
        {"role": "assistant", "content": EVIL, "tool_calls": [call]},
        {"role": "tool", "content": EVIL, "name": EVIL},
        {"role": EVIL, "content": EVIL},
    )
    texts = dict.fromkeys(("rollout_id", "error", "policy", "sampling", "stop_reason"), EVIL)
    rollout = make_rollout(messages=messages, state={EVIL: EVIL}, **texts)
    reward = make_reward(rollout, 0.5, parts={EVIL: 0.5}, answer=EVIL, error=EVIL)
    return stored_rollouts.ScoredRound(EVIL, Rollouts((rollout,)), Rewards((reward,), {}), {EVIL: EVIL})


@pytest.mark.parametrize("rollout", [[], ["0", "--full"]])
def test_show_as_text_and_as_json(rlft, monkeypatch, rollout):
    monkeypatch.setattr(stored_rollouts, "open_run", lambda home, run, stack: None)
    monkeypatch.setattr(stored_rollouts, "load_round", lambda run, round: hostile_round())
    shown = rlft("show", "run", "0", *rollout)
    assert shown.exit_code == 0, shown.output
    # The list says the id, the reason to stop, the error and the round; the rollout its messages and facts too. The
    # white space of a tool's name, which heads its message, is shown otherwise.
    assert shown.stdout.count(SEEN) == (2 if not rollout else 16)
    assert is_harmless(shown.output)
    printed = rlft("show", "run", "0", *rollout, "--json")
    assert is_harmless(printed.stdout)
    content = json.loads(printed.stdout)
    record = content if rollout else content[0]
    assert (record["rollout_id"], record["error"]) == (EVIL, EVIL)


def test_the_summary_of_a_run():
    terminal = Terminal(file=io.StringIO(), width=2000)
    change = Difference(metric="reward", before=0.1, after=0.2, mean=0.1, ci_low=0.0, ci_high=0.2, tasks=3)
    promotion = Promotion(name=EVIL, version=EVIL, alias="challenger", reasons=[EVIL])
    summary = Summary(
        status="failed", error=EVIL, difference=change, differences={EVIL: change, "b": None}, promotion=promotion,
        base={"reward": 0.1, EVIL: 0.1}, final={"reward": 0.2, EVIL: 0.2},
        ledger=Ledger(sampled=4, filtered=3, errored=1), rounds=1, seconds=Seconds(total=3.0),
    )  # fmt: skip
    show_summary(summary, terminal, where=[EVIL])
    written = terminal.file.getvalue()
    assert written.count(SEEN) == 6
    assert is_harmless(written)


def test_doctor_and_stack(rlft, monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "check_home", lambda home: Finding("broken", EVIL, EVIL))
    monkeypatch.setattr(stack_file, "read_stack_file", lambda file: None)
    monkeypatch.setattr(stack_file, "apply_stack_file", lambda stack: EVIL)
    for arguments, times in ((["doctor"], 2), (["stack", "x.yaml"], 2)):
        result = rlft(*arguments)
        assert result.stdout.count(SEEN) == times
        assert is_harmless(result.output)


@pytest.mark.parametrize("in_a_terminal", [True, False])
def test_progress(in_a_terminal):
    terminal = Terminal(file=io.StringIO(), width=2000, force_terminal=in_a_terminal, force_interactive=in_a_terminal)
    clock = iter(range(0, 1000, 100))
    display = progress.Display(terminal, clock=lambda: next(clock))
    with display.stage(EVIL) as stage:
        stage(1, 2, EVIL)
        display.look()
    written = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", terminal.file.getvalue())  # rich's own
    assert written.count(SEEN) >= 1
    assert is_harmless(written)


UNREAD = """
import os, sys
from rlft.reporting.bars import Display
from rlft.reporting.terminal import Terminal
with Display(Terminal(stderr=True, force_terminal={terminal})).stage("rollouts"):
    Terminal(stderr=True).print("a line that nobody reads")
    print("the step goes on", file=sys.stderr, flush=True)
Terminal().print("the summary")
"""


@pytest.mark.slow
@pytest.mark.parametrize("terminal", [True, False])
def test_a_reader_of_stderr_that_ends_does_not_end_the_run(terminal):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", UNREAD.format(terminal=terminal)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=writer, cwd=PROJECT, text=True)
    os.close(writer)
    assert (done.returncode, done.stdout) == (0, "the summary\n")


@pytest.mark.slow
@pytest.mark.parametrize("written", ["print('x')", "write_json({})"])
def test_a_reader_of_stdout_that_ends_is_no_error(written):
    reader, writer = os.pipe()
    os.close(reader)
    code = f"from rlft.reporting.terminal import Terminal; Terminal().{written}"
    done = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, cwd=PROJECT, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
