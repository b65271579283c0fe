"""The model that several parts read, written once: `python -m benchmarks.gpu.model JSON FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.grpo_workload import Workload, write_model

if __name__ == "__main__":
    write_model(Workload(**json.loads(sys.argv[1])), Path(sys.argv[2]))
    sys.stdout.write(json.dumps({"folder": sys.argv[2]}) + "\n")
