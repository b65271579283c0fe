"""Conversations that are written down: what an environment hears, says and leaves behind. No model, no tokens."""

import asyncio
import threading
import time

import pytest

import rlft
from rlft.config import HarnessConfig
from rlft.environments.contract.base import BaseEnv, live_states
from rlft.errors import EnvironmentSetupError
from rlft.harness.scripted import Part, as_script, play_scripts
from rlft.messages import make_call
from tests.factories import make_task, user
from tests.rlft.several import make_several, of


class Shop(rlft.BaseEnv):
    """Tools of every temper, and a record of what happened."""

    def __init__(self):
        self.log = []

    async def setup(self, task):
        return {"task": task.id, "sold": 0}

    async def teardown(self, rollout_id):
        self.log.append(f"closed {rollout_id}")

    @rlft.tool
    def sell(self, count: int, state: dict) -> dict:
        """Sell some."""
        state["sold"] += count
        return {"left": 10 - state["sold"]}

    @rlft.tool
    async def wait(self, seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return "waited"

    @rlft.tool
    def block(self, seconds: float) -> str:
        """Wait without awaiting."""
        time.sleep(seconds)
        return "blocked"

    @rlft.tool
    def spin(self) -> str:
        """Never return."""
        self.spinning = threading.current_thread()
        while True:
            pass

    @rlft.tool
    def fail(self) -> str:
        """Fail."""
        raise ValueError("out of stock")

    @rlft.tool
    def leave(self) -> str:
        """End the program."""
        raise SystemExit(3)

    @rlft.tool
    async def leave_later(self) -> str:
        """End the program."""
        raise SystemExit(4)

    @rlft.tool
    def long(self) -> str:
        """Say much."""
        return "x" * 100

    @rlft.reward
    def sold(self, state):
        return float(state["sold"])


def calls(*wanted, content=""):
    made = [make_call(name, arguments, f"c{n}") for n, (name, arguments) in enumerate(wanted)]
    return {"role": "assistant", "content": content, "tool_calls": made}


def say(text):
    return {"role": "assistant", "content": text}


def play(*script, environment=None, **limits):
    (rollout,) = play_scripts([Part("r1", make_task(), script)], environment or Shop(), HarnessConfig(**limits))
    return rollout


def heard(rollout):
    return [message["content"] for message in rollout.messages if message["role"] == "tool"]


def test_a_conversation_with_a_tool():
    environment = Shop()
    rollout = play(calls(("sell", {"count": 3}), content="I sell."), say("7 left"), environment=environment)
    assert [message["role"] for message in rollout.messages] == ["user", "assistant", "tool", "assistant"]
    assert rollout.messages[2] == {
        "role": "tool",
        "content": '{"left": 7}',
        "name": "sell",
        "tool_call_id": "c0",
    }
    assert rollout.state == {"task": "t0", "sold": 3}
    assert (rollout.turns, rollout.tool_calls, rollout.tool_errors, rollout.error) == (2, 1, 0, None)
    assert environment.log == ["closed r1"]
    assert live_states(environment) == {}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (("fail", {}), "error: ValueError: out of stock"),
        (("leave", {}), "error: RuntimeError: SystemExit: 3"),
        (("leave_later", {}), "error: RuntimeError: SystemExit: 4"),
        (("sel", {"count": 1}), "error: there is no tool named 'sel'; did you mean sell?"),
        (
            ("xyzzy", {}),
            "error: there is no tool named 'xyzzy'; there are: sell, wait, block, spin, fail, leave, leave_later, long",
        ),
        (("sell", {"count": "many"}), "error: wrong arguments: count: Input should be a valid integer"),
        (("sell", {}), "error: wrong arguments: count: Field required"),
        (("sell", [3]), "error: wrong arguments: arguments of sell must be an object, not list"),
        (("sell", {"count": 1, "state": {"sold": 99}}), "error: wrong arguments: state: Extra inputs"),
        (("wait", {"seconds": 30}), "error: wait took longer than 0.5 s"),
        (("block", {"seconds": 20}), "error: block took longer than 0.5 s"),
    ],
)
def test_what_goes_wrong_is_told_to_the_model_and_counted(call, text):
    started = time.perf_counter()
    rollout = play(calls(call, ("sell", {"count": 2})), say("done"), tool_timeout_seconds=0.5)
    first, second = heard(rollout)
    assert first.startswith(text)
    assert second == '{"left": 8}'  # the next call of the same turn goes on
    assert [message.get("failed") for message in rollout.messages] == [None, None, True, None, None]
    assert (rollout.tool_calls, rollout.tool_errors, rollout.error) == (2, 1, None)
    assert rollout.state["sold"] == 2
    assert time.perf_counter() - started < 15


def test_long_results_are_cut_and_calls_are_limited():
    rollout = play(calls(*[("long", {})] * 3), say("done"), max_tool_characters=10, max_tool_calls=2)
    assert heard(rollout) == ["x" * 10 + " ... (90 more characters)"] * 2 + ["error: no more than 2 calls are allowed"]
    assert [message.get("failed") for message in rollout.messages[2:5]] == [None, None, True]
    assert (rollout.tool_calls, rollout.tool_errors) == (3, 1)


@pytest.mark.parametrize("said", ["ü" * 50_000_000, {"role": "user", "content": "ü" * 50_000_000}])
def test_what_respond_and_tools_return_is_cut_whatever_its_length(said):
    class Talks(rlft.BaseEnv):
        @rlft.tool
        def dump(self) -> list[str]:
            """Give everything."""
            return ["x" * 50_000_000]

        def respond(self, rollout_id, completion):
            return said

    started = time.perf_counter()
    rollout = play(calls(("dump", {})), say("more"), say("done"), environment=Talks(), max_tool_characters=10)
    texts = [message["content"] for message in rollout.messages if message["role"] in ("tool", "user")][1:]
    # A list of one text has four characters around it: '["' and '"]'.
    assert texts[:2] == ['["xxxxxxxx ... (49999994 more characters)', "ü" * 10 + " ... (49999990 more characters)"]
    assert time.perf_counter() - started < 20  # a second or two; without the cut its tokenisation took minutes


def test_a_result_that_begins_with_error_is_none():
    class Manual(rlft.BaseEnv):
        @rlft.tool
        def explain(self, code: int) -> str:
            """Explain a code."""
            return f"error: {code} means that the page is not there"

    rollout = play(calls(("explain", {"code": 404})), say("done"), environment=Manual())
    told = {"role": "tool", "content": "error: 404 means that the page is not there"}
    assert rollout.messages[2] == {**told, "name": "explain", "tool_call_id": "c0"}
    assert rollout.tool_errors == 0


def test_turns_are_limited_and_the_last_calls_are_run():
    rollout = play(*[calls(("sell", {"count": 1}))] * 9, max_turns=3)
    assert (rollout.turns, rollout.state["sold"], len(heard(rollout))) == (3, 3, 3)
    assert play(*[calls(("sell", {"count": 1}))] * 20).turns == 8  # the default with tools


def test_tools_of_different_rollouts_run_side_by_side():
    parts = [Part(f"r{n}", make_task(), (calls(("block", {"seconds": 0.3})), say("done"))) for n in range(32)]
    started = time.perf_counter()
    rollouts = play_scripts(parts, Shop())
    assert time.perf_counter() - started < 3  # 9.6 one after the other
    assert all(heard(rollout) == ["blocked"] for rollout in rollouts)


class Examiner(BaseEnv):
    """Asks until it hears a yes."""

    def __init__(self, says="Sure?"):
        self.says = says

    async def respond(self, rollout_id, completion):
        return None if completion.text == "yes" else self.says

    async def compute_reward(self, completion, ground_truth):
        return {"yes": float(completion.text == "yes")}


def test_an_environment_may_answer():
    rollout = play(say("maybe"), say("yes"), say("never said"), environment=Examiner())
    assert [m["content"] for m in rollout.messages] == ["1+1=", "maybe", "Sure?", "yes"]
    assert rollout.messages[2]["role"] == "user"
    message = {"role": "user", "content": "Really?", "name": "Ann"}
    assert play(say("no"), say("yes"), environment=Examiner(message)).messages[2] == message


class Elsewhere(BaseEnv):
    """Written for the protocol by someone else: plain functions, no call of the base class, plain parameters."""

    def __init__(self, client="memory"):
        self.client, self.seen = client, {}

    def list_tools(self):
        return [{"name": "look_up", "description": "Look something up.", "parameters": {"key": "What."}}]

    def run_tool(self, rollout_id, tool_name, **args):
        self.seen.setdefault(rollout_id, []).append(args["key"])
        return self._later(args["key"]) if args["key"] == "later" else f"{self.client}: {args['key']}"

    async def _later(self, key):
        return f"awaited {key}"

    def compute_reward(self, completion, ground_truth):
        return {"tool": any(message["role"] == "tool" for message in completion)}


def test_a_class_written_elsewhere_runs_as_it_is():
    environment = Elsewhere(client="disk")
    rollout = play(
        calls(("look_up", {"key": "now"}), ("look_up", {"key": "later"})), say("ok"), environment=environment
    )
    assert heard(rollout) == ["disk: now", "awaited later"]
    assert environment.seen == {"r1": ["now", "later"]}
    assert rollout.error is None


def test_a_coroutine_may_hand_on_that_of_a_client():
    class HandsOn(Elsewhere):
        async def run_tool(self, rollout_id, tool_name, **args):
            return self._later(args["key"])

    rollout = play(calls(("look_up", {"key": "it"})), say("ok"), environment=HandsOn())
    assert heard(rollout) == ["awaited it"]


class Broken(Examiner):
    def __init__(self, place):
        super().__init__()
        self.place = place

    async def setup(self, task):
        if self.place == "setup":
            raise ValueError("no room")
        return {"value": float("nan")} if self.place == "state" else {}

    async def respond(self, rollout_id, completion):
        if self.place == "respond":
            raise ValueError("no room \udcff")


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("setup", "setup: ValueError: no room"),
        ("respond", "respond: ValueError: no room \\udcff"),
        ("state", "state: ValueError: Out of range float values are not JSON compliant"),
    ],
)
def test_an_environment_that_fails_is_an_error_of_its_rollout(place, text):
    rollout = play(say("maybe"), environment=Broken(place))
    assert str(rollout.error).startswith(text)
    assert rollout.stop_reason == "error"


def test_a_setup_that_takes_too_long_says_so():
    class Slow(Examiner):
        async def setup(self, task):
            await asyncio.sleep(60)

    error = play(say("x"), environment=Slow(), tool_timeout_seconds=0.1).error
    assert str(error).startswith("setup: Late: longer than 0.1 s, at tests/rlft/harness/test_scripted.py:")


def test_an_error_of_list_tools_is_raised_at_once():
    class Away(Elsewhere):
        def list_tools(self):
            raise TimeoutError("no answer from the server")

    started = time.perf_counter()
    with pytest.raises(EnvironmentSetupError, match="list_tools: TimeoutError: no answer from the server, at tests/"):
        play(say("x"), environment=Away(), timeout_seconds=3)
    assert time.perf_counter() - started < 2


def test_tools_that_cannot_be_described_stop_everything():
    class Wrong(Elsewhere):
        def list_tools(self):
            return [{"name": "a b"}]

    with pytest.raises(EnvironmentSetupError, match="has no name"):
        play(say("x"), environment=Wrong())


def test_nothing_is_left_behind():
    before = set(threading.enumerate())
    play(calls(("sell", {"count": 1})), say("done"))
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
    assert not set(threading.enumerate()) - before


def test_a_tool_that_spins_is_told_to_end():
    shop = Shop()
    rollout = play(calls(("spin", {})), say("done"), environment=shop, tool_timeout_seconds=0.5)
    assert heard(rollout) == ["error: spin took longer than 0.5 s"]
    shop.spinning.join(30)
    assert not shop.spinning.is_alive()


def test_text_is_one_answer():
    assert as_script("hello") == ({"role": "assistant", "content": "hello"},)
    assert as_script([say("a"), say("b")]) == (say("a"), say("b"))


class Odd(rlft.BaseEnv):
    """What environments return and raise that nobody expects."""

    def __init__(self):
        self._states = {}  # a name that a class may well use itself

    @rlft.tool
    async def cancelled(self) -> str:
        """Raise what a cancelled client raises."""
        raise asyncio.CancelledError("upstream")

    @rlft.tool
    def half(self) -> str:
        """Read a file name that is no UTF-8."""
        return "file \udcff"

    @rlft.tool
    def missing(self) -> str:
        """Look for a file whose name is no UTF-8."""
        raise FileNotFoundError("file \udcff")

    @rlft.tool
    def upstream(self) -> str:
        """Give up on a server."""
        raise TimeoutError("no answer from the server")

    @rlft.tool
    def raw(self) -> bytes:
        """Return bytes."""
        return b"abc"

    @rlft.tool
    def names(self, method: str, tool_name: str) -> str:
        """Take arguments with names of the harness."""
        return method + tool_name

    @rlft.reward
    def one(self):
        return 1.0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (("cancelled", {}), "error: RuntimeError: CancelledError: upstream"),
        (("half", {}), "file ?"),
        (("missing", {}), "error: FileNotFoundError: file ?"),
        (("upstream", {}), "error: TimeoutError: no answer from the server"),
        (("raw", {}), '"abc"'),
        (("names", {"method": "a", "tool_name": "b"}), "ab"),
    ],
)
def test_odd_tools(call, text):
    rollout = play(calls(call), say("done"), environment=Odd())
    assert (heard(rollout), rollout.error) == ([text], None)


def test_what_a_plain_method_returns_to_be_awaited_may_end_the_program():
    class Leaves(Elsewhere):
        async def _later(self, key):
            raise SystemExit(5)

    rollout = play(calls(("look_up", {"key": "later"})), say("ok"), environment=Leaves())
    assert heard(rollout) == ["error: RuntimeError: SystemExit: 5"]


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ({"role": "user", "content": [{"type": "text", "text": "go "}, {"type": "text", "text": "on"}]}, user("go on")),
        ({"role": "developer", "content": "go on", "name": None}, {"role": "system", "content": "go on"}),
    ],
)
def test_a_reply_may_be_what_openai_calls_a_message(said, heard):
    rollout = play(say("maybe"), say("yes"), environment=Examiner(said))
    assert (rollout.error, rollout.messages[2]) == (None, heard)


@pytest.mark.parametrize("said", [{"content": "x"}, {"role": "user", "content": None}, 3])
def test_a_reply_that_is_no_message_is_an_error_of_its_rollout(said):
    assert str(play(say("maybe"), environment=Examiner(said)).error).startswith("respond: TypeError: ")


@pytest.mark.parametrize(
    ("state", "text"), [([1], "setup: TypeError: returned list, not a dict"), ({"x": "\udcff"}, "state: UnicodeEncode")]
)
def test_a_state_that_cannot_be_stored(state, text):
    class Starts(Examiner):
        async def setup(self, task):
            return state

    assert str(play(say("yes"), environment=Starts()).error).startswith(text)


def test_rollouts_share_no_state():
    shared = {"sold": 0, "basket": []}

    class Shares(Shop):
        async def setup(self, task):
            return shared

        @rlft.tool
        def take(self, state: dict) -> int:
            """Take one."""
            state["basket"].append(1)
            return len(state["basket"])

    script = (calls(("sell", {"count": 1}), ("take", {})), say("done"))
    rollouts = play_scripts([Part(f"r{n}", make_task(), script) for n in range(3)], Shares())
    assert [rollout.state for rollout in rollouts] == [{"sold": 1, "basket": [1]}] * 3
    assert shared == {"sold": 0, "basket": []}


def test_several_environments_have_their_turn_one_after_the_other():
    several = make_several()
    spelled = [{"role": "assistant", "content": "", "tool_calls": [make_call("spell", {"word": "ab"}, "c1")]}]
    parts = [
        Part("1", of("words", 1), as_script([*spelled, {"role": "assistant", "content": "ab"}])),
        Part("2", of("sums", 1), as_script("2")),
        Part("3", of("words", 2), as_script("abc")),
    ]
    said = [[(m["role"], m["content"]) for m in rollout.messages] for rollout in play_scripts(parts, several)]
    assert said == [
        [("user", "1+1= (words)"), ("assistant", ""), ("tool", "a-b"), ("assistant", "ab")],
        [("system", "Add."), ("user", "1+1= (sums)"), ("assistant", "2")],
        [("user", "2+1= (words)"), ("assistant", "abc")],
    ]
