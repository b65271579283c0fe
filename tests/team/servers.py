"""The servers of a team without containers: PostgreSQL, MLflow with authentication, ZenML, and S3 by moto.

Commands and variables of MLflow, ZenML and the buckets are those of `compose.yaml`. PostgreSQL
does not run as root: it gets its own user.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml

from tests.e2e.conftest import ROOT, free_port

PYTHON = ROOT / ".venv" / "servers" / "bin" / "python"
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
PASSWORD = "a-long-password"
NEW_PASSWORD = "a-password-of-ones-own"  # at MLflow, in place of the first one
VALUES = {
    "ADMIN_PASSWORD": PASSWORD,
    "POSTGRES_PASSWORD": "the-password-of-postgres",
    "S3_KEY": "team-key",
    "S3_SECRET": "team-secret-of-s3",
    "MLFLOW_SECRET_KEY": "x" * 32,
    "ZENML_SECRET_KEY": "y" * 32,
    "MLFLOW_SERVER_ALLOWED_HOSTS": "",  # as where nobody sets it
    "ZENML_ENCRYPTION_KEY": "z" * 48,
}
_S3 = Path(__file__).with_name("s3.py")


class Restartable:
    """A server that a test may kill, and start again where it was; `pid` is its process, and its group's number."""

    def __init__(self, held: ExitStack, address: str, *how: Any, **variables: str) -> None:
        self.address = address
        self._start = lambda: held.enter_context(process(*how, **variables)).pid
        self.start()

    def start(self) -> None:
        """Start it; returns when it answers."""
        self.pid = self._start()


@dataclass(frozen=True)
class Servers:
    """Where they are. What stands in the file `fault` makes the store fail, and `folder` holds databases and logs."""

    zenml_server: Restartable
    mlflow: str
    s3: str
    fault: Path

    @property
    def zenml(self) -> str:
        """The address of ZenML's server."""
        return self.zenml_server.address

    @property
    def folder(self) -> Path:
        """Where the servers keep what they have."""
        return self.fault.parent


@contextmanager
def process(command: list[str], folder: Path, name: str, health: str, **variables: str) -> Iterator[subprocess.Popen]:
    """A server of which nothing stays behind; ready when its address answers."""
    log = folder / f"{name}.log"
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ZENML_", "MLFLOW_", "PYTHON"))}
    with log.open("ab") as output:
        server = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=output, env=kept | variables, start_new_session=True
        )
    try:
        while not _answers(health):
            assert server.poll() is None, log.read_text()
            time.sleep(0.3)
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait(30)


def _answers(address: str) -> bool:
    try:
        with urlopen(address, timeout=10) as answer:  # httpx would read all certificates each time
            return answer.status == 200
    except OSError:
        return False


def postgres_programs() -> Path | None:
    """The folder of PostgreSQL's programs, which Debian keeps out of PATH."""
    found = [Path(found).resolve().parent] if (found := shutil.which("initdb")) else []
    return [*found, *sorted(Path("/usr/lib/postgresql").glob("*/bin")), None][0]


@contextmanager
def postgres() -> Iterator[str]:
    """PostgreSQL with the database `mlflow`, in a folder of its own; yields `user@host:port`."""
    programs, port = postgres_programs(), str(free_port())
    assert programs is not None
    is_root = os.geteuid() == 0
    name = "postgres" if is_root else getpass.getuser()
    as_user = ["runuser", "-u", name, "--"] if is_root else []
    folder = Path(tempfile.mkdtemp(prefix="rlft-postgres-", dir="/tmp"))
    if is_root:
        shutil.chown(folder, name)

    def call(program: str, *arguments: str) -> None:
        command = [*as_user, str(programs / program), *arguments]
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)

    data = str(folder / "data")
    options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c fsync=off"
    try:
        call("initdb", "-D", data, "-A", "trust", "-U", name, "--no-sync")
        call("pg_ctl", "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
        try:
            call("psql", "-h", "127.0.0.1", "-p", port, "-U", name, "-c", "CREATE DATABASE mlflow", "postgres")
            yield f"{name}@127.0.0.1:{port}"
        finally:
            call("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def s3(folder: Path) -> Iterator[tuple[str, Path]]:
    """S3 with the buckets `zenml` and `mlflow`; yields its address, and the file that makes it fail."""
    port, fault = free_port(), folder / "fault"
    fault.write_text("")
    address = f"http://127.0.0.1:{port}"
    command = [str(PYTHON), str(_S3), str(port), VALUES["S3_KEY"], str(fault)]
    with process(command, folder, "s3", f"{address}/moto-api/"):
        make_buckets, variables, _ = described("buckets", {"http://s3:8333": address})
        subprocess.run(make_buckets, check=True, env=os.environ | variables)
        yield address, fault


def described(name: str, places: dict[str, str]) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Command, variables and files of a service of compose.yaml.

    Passwords are `VALUES`, and `places` says what stands here in place of the containers' addresses and folders.
    """

    def here(text: str) -> str:
        filled = re.sub(r"\$\{(\w+)[^}]*\}", lambda found: VALUES[found[1]], text)
        for there, place in places.items():
            filled = filled.replace(there, place)
        return filled

    service = COMPOSE["services"][name]
    program, *arguments = map(here, service["command"])
    files = {
        here(each["target"]): here(COMPOSE["configs"][each["source"]]["content"]) for each in service.get("configs", ())
    }
    variables = {key: here(str(value)) for key, value in service["environment"].items()}
    return [str(PYTHON.parent / program), *arguments], variables, files


@contextmanager
def mlflow(folder: Path, database: str, s3_address: str) -> Iterator[str]:
    """MLflow's server on PostgreSQL, which asks who is there and keeps files in S3; yields its address."""
    port = str(free_port())
    user, place = database.split("@")
    # PostgreSQL trusts whoever reaches its port, which is of this test alone.
    places = {f"mlflow:{VALUES['POSTGRES_PASSWORD']}@postgres:5432": f"{user}@{place}", "http://s3:8333": s3_address}
    places |= {"/etc/mlflow": str(folder), "0.0.0.0": "127.0.0.1", "5000": port}
    command, variables, files = described("mlflow", places)
    for file, content in files.items():
        Path(file).write_text(content)
    address = f"http://127.0.0.1:{port}"
    with process(command, folder, "mlflow", f"{address}/health", **variables):
        yield address


def zenml(held: ExitStack, folder: Path) -> Restartable:
    """ZenML's server, with an administrator; it ends with `held`."""
    port = str(free_port())
    command, variables, _ = described("zenml", {"/data": str(folder), "0.0.0.0": "127.0.0.1", "8080": port})
    address = f"http://127.0.0.1:{port}"
    return Restartable(held, address, command, folder, "zenml", f"{address}/health", **variables)


@contextmanager
def team(folder: Path) -> Iterator[Servers]:
    """All of them."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        database = held.enter_context(postgres())
        s3_address, fault = held.enter_context(s3(folder))
        tracker = held.enter_context(mlflow(folder, database, s3_address))
        yield Servers(zenml(held, folder), tracker, s3_address, fault)
