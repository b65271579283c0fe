"""An environment whose answers say what its reward and tools do to the process that they run in."""

import asyncio
import ctypes
import logging
import os
import re
import signal
import sys
import threading
import time
import warnings

import rlft

kept = []  # what a reward leaks


def act(what, state=None):
    """Do to this process what a word says; another word does nothing."""
    if what == "exit":
        os._exit(0)
    if what == "abort":
        os.abort()
    if what == "segfault":
        ctypes.string_at(0)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "backtrack":
        re.fullmatch("(a+)+b", "a" * 64)
    if what == "loop":
        while True:
            pass
    if what == "memory":
        kept.append(bytearray(1 << 40))
    if what == "leak":
        kept.append(bytearray(60 << 20))
    if what == "swell":
        while len(kept) < 40:  # 320 MiB in all
            kept.append(bytearray(b"x") * (8 << 20))
        time.sleep(5)
    if what == "print":
        os.write(1, b"\x00\x00\x00\x00\x00\x00\x00\x02{}")
        sys.stdout.write("printed\n")
        sys.stderr.write("printed\n")
    if what == "chdir":
        os.chdir("/")
    if what == "nan":
        return float("nan")
    return 1 / 0 if what == "fail" else 1.0


class Plain(rlft.BaseEnv):
    def compute_reward(self, completion, ground_truth):
        time.sleep(0.002)
        return {"value": act(completion.text), "pid": os.getpid()}

    def reward_weights(self):
        return {"pid": 0.0}

    def final_answer(self, completion):
        return completion.text or None


class Stepwise(Plain):
    @rlft.reward(weight=0.5, per="turn")
    def length(self, turn):
        return float(len(turn.message["content"]))


class Tells(Plain):
    """Tells its key wherever a process prints by itself."""

    def __init__(self, key):
        self.key = key

    def compute_reward(self, completion, ground_truth):
        logging.getLogger("client").warning("logged %s", self.key)
        warnings.warn(f"warned {self.key}", stacklevel=1)
        thread = threading.Thread(target=lambda: int(f"raised {self.key}"))
        thread.start()
        thread.join()
        return 1.0


class Awaited(Plain):
    async def compute_reward(self, completion, ground_truth):
        await asyncio.sleep(0.002)
        return {"value": act(completion.text), "pid": os.getpid()}


class Tools(Plain):
    async def setup(self, task):
        act(task.info.get("setup", ""))
        return {"did": []}

    @rlft.tool
    def do(self, what: str, state: dict) -> str:
        """Do something."""
        state["did"].append(what)
        act(what)
        return "x" * 50_000_000 if what == "long" else f"did {what}"

    @rlft.tool
    async def sleep(self, seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return "slept"

    def respond(self, rollout_id, completion):
        act(completion.text)
        return None if completion.text == "done" else "go on"


class Native(rlft.BaseEnv):
    isolation = "process"

    def compute_reward(self, completion, ground_truth):
        act(completion.text)
        return {"right": completion.text == ground_truth, "pid": os.getpid()}

    def reward_weights(self):
        return {"pid": 0.0}


class Leaves(Native):
    """Ends its process on one gold answer."""


class Fails(Plain):
    def __init__(self):
        if os.environ.get("RLFT_TEST_FAILS", str(os.getpid())) != str(os.getpid()):
            raise ValueError("no licence")


class Exits(rlft.BaseEnv):
    def compute_reward(self, completion, ground_truth):
        os._exit(0)


class Imports(rlft.BaseEnv):
    def compute_reward(self, completion, ground_truth):
        heavy = {"torch", "transformers", "zenml", "mlflow", "pandas"} & set(sys.modules)
        return {"one": 1.0, "heavy": len(heavy)}

    def reward_weights(self):
        return {"heavy": 0.0}


class Keeps(Tools):
    """Keeps something of a rollout beside its state, and says so by its teardown."""

    @rlft.tool
    async def do(self, what: str, state: dict) -> str:
        """Do something."""
        await asyncio.sleep(0.3 if what == "sleepy" else 0.1)
        return str(act(what))

    def teardown(self, rollout_id):
        return None
