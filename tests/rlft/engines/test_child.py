import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from rlft.engines.server_process import Child, StoppedError, free_port
from rlft.errors import EngineError

# Starts a child of its own, writes that one's number, and both ignore SIGTERM.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    print(os.getpid(), flush=True)
time.sleep(600)
"""


def child(code, tmp_path, **variables):
    return Child("the program", [sys.executable, "-c", code], variables, tmp_path / "log")


def wait(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_last_words_of_one_that_does_not_start(tmp_path):
    code = (
        "import sys\nprint('ValueError: the cause')\nfor i in range(30): print(i)\nprint('\\x1b[31mlast');sys.exit(3)"
    )
    started = child(code, tmp_path)
    with pytest.raises(EngineError) as caught:
        started.wait_until_healthy(f"http://127.0.0.1:{free_port()}", 60, threading.Event())
    said = str(caught.value)
    assert "the program did not start: it ended with exit code 3; its last words:" in said
    assert "ValueError: the cause" in said  # further up, but it names an error
    assert "\n    29\n" in said
    assert "\n    3\n" not in said
    assert "last" in said
    assert "\x1b" not in said
    assert caught.value.exit_code == 2


def test_one_that_does_not_answer_in_time(tmp_path):
    started = child("import time; time.sleep(600)", tmp_path)
    try:
        with pytest.raises(EngineError, match=r"did not answer within 0\.5 s"):
            started.wait_until_healthy(f"http://127.0.0.1:{free_port()}", 0.5, threading.Event())
    finally:
        started.stop()
    assert started.exit_code == -signal.SIGTERM


def test_a_start_can_be_stopped(tmp_path):
    started, stop = child("import time; time.sleep(600)", tmp_path), threading.Event()
    stop.set()
    try:
        with pytest.raises(StoppedError):
            started.wait_until_healthy(f"http://127.0.0.1:{free_port()}", 60, stop)
    finally:
        started.stop()


def test_all_that_it_has_started_ends_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr("rlft.engines.server_process._ENDS_WITHIN", 0.5)
    started = child(STUBBORN, tmp_path)
    wait(lambda: started.log.read_text().strip().isdecimal())
    other = int(started.log.read_text())
    started.stop()
    assert started.exit_code == -signal.SIGKILL
    wait(lambda: not psutil.pid_exists(other) or psutil.Process(other).status() == psutil.STATUS_ZOMBIE)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell a child that its parent has died")
def test_it_ends_with_a_parent_that_is_killed(tmp_path):
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom rlft.engines.server_process import Child\n"
        "command = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        f"c = Child('x', command, {{}}, Path({str(tmp_path / 'log')!r}))\n"
        "print(c.pid, flush=True)\ntime.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=os.environ)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    wait(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


# Answers 200 at a port.
ANSWERING = """
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


@pytest.mark.parametrize("by_a_child", [False, True])
def test_one_that_answers_is_healthy_also_if_a_child_of_it_does(tmp_path, by_a_child):
    port, log = free_port(), tmp_path / "log"
    command = [sys.executable, "-c", ANSWERING, str(port)]
    if by_a_child:
        command = [sys.executable, "-c", f"import subprocess; subprocess.run({command!r})"]
    started = Child("the program", command, {}, log)
    try:
        started.wait_until_healthy(f"http://127.0.0.1:{port}", 60, threading.Event())
        assert started.exit_code is None
    finally:
        started.stop()
