"""Look after a firing whose run is a stand-in: it notes that it began, and ends when a file is there.

    python -m tests.mlops.schedules.killed HOME ID FOLDER [begin]

With `begin` the process is killed at the moment at which its run is started: right before or right after.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from mlops.home.folder import Home
from mlops.schedules import settling
from mlops.schedules.watch import carry_out
from mlops.schedules.watching import Watch

RUN = """
import sys, time
from pathlib import Path
folder, summary = Path(sys.argv[1]), Path(sys.argv[2])
with (folder / "began").open("a") as file:
    file.write("run\\n")
while not (folder / "go").is_file():
    time.sleep(0.02)
summary.write_text('{"status": "too_hard", "pipeline_run_id": "p"}')
"""

if __name__ == "__main__":
    home, number, folder = Home(Path(sys.argv[1])), int(sys.argv[2]), Path(sys.argv[3])
    settling.run_command = lambda stored, firing, run, summary: [sys.executable, "-c", RUN, str(folder), str(summary)]
    start = subprocess.Popen
    if sys.argv[4:] == ["before"]:
        subprocess.Popen = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[4:] == ["after"]:

        def started(*given, **named):
            start(*given, **named)
            os.kill(os.getpid(), signal.SIGKILL)

        subprocess.Popen = started
    carry_out(Watch(home, pause=lambda seconds: __import__("time").sleep(0.05)), number)
