"""People of a team: each has a home, a ZenML and an account of their own, and types what docs/guide/team.md says."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import httpx

from tests.e2e.conftest import Home, Result, fork_server
from tests.team.servers import PASSWORD, Servers

_ZENML = "import sys; sys.argv[0] = 'zenml'; from zenml.cli.cli import cli; cli()"
ON = ("--stack", "team")
_DEVICE = re.compile(r"device_id=([\w-]+)&user_code=(\w+)")


@dataclass(frozen=True)
class Member(Home):
    """One of them, called `name` at all servers; `typed` are the commands that they all have given."""

    name: str
    servers: Servers
    typed: ClassVar[list[list[str]]] = []

    def environment(self) -> dict[str, str]:
        """That of the guide; nothing of ZenML's or MLflow's is set."""
        unset = ("ZENML_STORE_URL", "MLFLOW_TRACKING_URI")
        base = {key: value for key, value in super().environment().items() if key not in unset}
        return base | {
            "HOME": str(self.folder),
            "ZENML_CONFIG_PATH": str(self.folder / "zenml"),
            "ZENML_ANALYTICS_OPT_IN": "false",
            "BROWSER": "true",  # a program that opens nothing
            "RLFT_ZENML_URI": self.servers.zenml,
            "RLFT_MLFLOW_URI": self.servers.mlflow,
            "RLFT_S3_URI": self.servers.s3,
        }

    def zenml(self, *arguments: str, typed: str = "") -> str:
        """What a command of ZenML's says at a terminal, at which `typed` is typed; it must not fail.

        A login in the browser is confirmed as this user does it on the server's page.
        """
        ours, theirs = pty.openpty()
        self.typed.append(["zenml", *arguments])
        asked = ["tests.e2e.code", [_ZENML, *arguments], self.folder, self.environment(), (theirs, theirs, theirs)]
        running = fork_server().start(*asked)
        os.close(theirs)
        said, confirmed = "", False
        with suppress(OSError), os.fdopen(ours, "rb", buffering=0) as terminal:  # it ends with an error: nobody writes
            while part := terminal.read(4096):
                said += part.decode(errors="replace")
                flat = re.sub(r"\x1b\[[0-9;]*m|[\r\n]", "", said)
                if (found := _DEVICE.search(flat)) and "If your browser" in flat and not confirmed:
                    confirmed = True
                    self._confirm(*found.groups())
                if typed and "password" in flat.lower():  # what is typed before it is asked for is thrown away
                    os.write(ours, typed.encode())
                    typed = ""
        assert running.wait(3000) == 0, said
        return said

    def _confirm(self, device: str, code: str) -> None:
        base = f"{self.servers.zenml}/api/v1"
        login = httpx.post(f"{base}/login", data={"username": self.name, "password": PASSWORD}).raise_for_status()
        headers = {"Authorization": f"Bearer {login.json()['access_token']}"}
        body = {"user_code": code, "trusted_device": True}
        httpx.put(f"{base}/devices/{device}/verify", json=body, headers=headers).raise_for_status()

    def write(self, name: str, value: Any) -> None:
        """Write JSON into a file of the home's folder."""
        (self.folder / name).write_text(json.dumps(value))

    def mlflow_user(self, name: str) -> None:
        """Make an account at MLflow's server, as its administrator."""
        self.write("account.json", {"username": name, "password": PASSWORD})
        self.curl(f"admin:{PASSWORD}", "users/create", "@account.json")

    def curl(self, login: str, path: str, body: str, *options: str) -> None:
        """Ask MLflow's server something, which it must not refuse."""
        asked = ["curl", "--silent", "--fail-with-body", "--user", login, *options]
        asked += [f"{self.servers.mlflow}/api/2.0/mlflow/{path}", "--json", body]
        self.typed.append(asked)
        subprocess.run(asked, check=True, capture_output=True, cwd=self.folder)

    def module(self, name: str, *arguments: str, timeout: float = 3000) -> subprocess.CompletedProcess[str]:
        """Run a module as every home does, with time enough beside servers that need the same processors."""
        return super().module(name, *arguments, timeout=timeout)

    def rlft(self, *arguments: str, kill_at: str = "-") -> Result:
        """Run a command as every home does, and note it."""
        self.typed.append(["rlft", *arguments])
        return super().rlft(*arguments, kill_at=kill_at)

    def json(self, *arguments: str) -> Any:
        """What a command of rlft's prints as JSON."""
        self.typed.append(["rlft", *arguments])
        done = self.module("cli", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def at_once(*calls: Any) -> Sequence[Result]:
    """What calls return that are made at the same time."""
    results: list[Any] = [None] * len(calls)

    def keep(place: int) -> None:
        results[place] = calls[place]()

    threads = [threading.Thread(target=keep, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
