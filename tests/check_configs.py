"""Validate every shipped config: `python -m tests.check_configs`. Its first line must be the command that runs it."""

import re
import sys
from pathlib import Path

from mlops.schedules.settings import load_schedule, overrides_of
from rlft.config.file import load_config, load_suite
from rlft.errors import ConfigError

ROOT = Path(__file__).resolve().parent.parent


def problems() -> list[str]:
    """One line for each config that does not hold."""
    found = []
    for path in sorted((ROOT / "configs").glob("*.yaml")):
        command = f"# rlft run configs/{path.name}"
        first = path.read_text().splitlines()[0]
        if not first.startswith(command):
            found.append(f"{path.name}: the first line is {first!r}, not {command!r}")
        try:
            load_config(path)
        except ConfigError as error:
            found.append(str(error))
    for path in sorted((ROOT / "configs" / "suites").glob("*.yaml")):
        first = path.read_text().splitlines()[0]
        if not (first.startswith("# rlft evaluate ") and first.endswith(f"--suite configs/suites/{path.name}")):
            found.append(f"{path.name}: the first line is {first!r}, and no command that uses it")
        try:
            load_suite(path)
        except ConfigError as error:
            found.append(str(error))
    for path in sorted((ROOT / "configs" / "rewards").glob("*.yaml")):
        found += _problems_of_reward(path)
    for path in sorted((ROOT / "configs" / "schedules").glob("*.yaml")):
        command = f"# rlft schedule apply configs/schedules/{path.name}"
        if (first := path.read_text().splitlines()[0]) != command:
            found.append(f"{path.name}: the first line is {first!r}, not {command!r}")
        try:
            schedule, _ = load_schedule(path)
            load_config(ROOT / schedule.config, overrides_of(schedule))
        except ConfigError as error:
            found.append(str(error))
    return found


def _problems_of_reward(path: Path) -> list[str]:
    """The same of a specification, whose first line names a config that it is a reward of."""
    first = path.read_text().splitlines()[0]
    override = f"reward.spec=rewards/{path.name}"
    command = re.fullmatch(rf"# rlft reward explain (configs/\w+\.yaml) --set {re.escape(override)}", first)
    if command is None:
        return [f"{path.name}: the first line is {first!r}, and no command that uses it"]
    try:
        load_config(ROOT / command[1], [override])
    except ConfigError as error:
        return [str(error)]
    return []


if __name__ == "__main__":
    found = problems()
    sys.stdout.write("\n".join(found) + ("\n" if found else "all configs hold\n"))
    sys.exit(bool(found))
