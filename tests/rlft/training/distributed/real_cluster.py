"""A cluster of Ray on loopback, a head and a second raylet of one core each, until this process's input ends.

    RAY_AUTH_TOKEN_PATH=FILE python -m tests.rlft.training.distributed.real_cluster FOLDER [PORT]

Its first line is JSON: the address, and the process numbers of the head and of both raylets. PORT is that of the head,
any free one by default.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KEPT_TO_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}


@contextmanager
def running(token: Path, port: int = 0) -> Iterator[dict[str, Any]]:
    """Such a cluster in a process of its own; yields its first line. `token` is the file of its token."""
    variables = os.environ | {"RAY_AUTH_TOKEN_PATH": str(token)}
    with tempfile.TemporaryDirectory(prefix="rlft-") as folder:  # a short name: a socket's path has 107 bytes at most
        command = [sys.executable, "-m", "tests.rlft.training.distributed.real_cluster", folder, str(port)]
        with subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            yield {**json.loads(process.stdout.readline()), "token": token, "folder": Path(folder)}
            process.stdin.close()
            process.wait(timeout=120)


def main(folder: str, port: int) -> None:
    """Start, say so, wait, and end it all."""
    os.environ.update(KEPT_TO_LOOPBACK, RAY_worker_niceness="0")
    utils: Any = importlib.import_module("ray.cluster_utils")
    for module, name in (
        ("_private", "write_ray_address"),
        ("_common", "reset_ray_address"),
    ):  # where others would look
        setattr(importlib.import_module(f"ray.{module}.utils"), name, lambda *_: None)
    node = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 100 << 20, "node_ip_address": "127.0.0.1"}
    head = {**node, "include_dashboard": False, "temp_dir": folder, "gcs_server_port": port}
    cluster = utils.Cluster(initialize_head=True, head_node_args=head, shutdown_at_exit=True)
    second = cluster.add_node(**node)
    nodes = [cluster.head_node, second]
    raylets = [each.all_processes["raylet"][0].process.pid for each in nodes]
    [gcs] = cluster.head_node.all_processes["gcs_server"]
    said = {"address": cluster.address, "head": gcs.process.pid, "raylets": raylets}
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
