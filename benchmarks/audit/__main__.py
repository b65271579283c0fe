"""Prints what the audit finds and whom it accuses: `python -m benchmarks.audit [--json]`."""

import json
import logging
import sys

from benchmarks.audit.measure import attackers, authors, measure

logging.disable(logging.WARNING)  # attempts that cannot be scored are part of the attack
found = measure(authors())
later = measure(attackers())  # kept apart: the attacks were mended by these cases
if "--json" in sys.argv:
    sys.stdout.write(json.dumps({**found, "attacked": later}, indent=1) + "\n")
else:
    lines = []
    for name, row in [("all", found), *found["by_author"].items(), *found["by_family"].items(), ("attacked", later)]:
        low, high = row["found_interval"][0], row["false_interval"][1]
        lines.append(
            f"{name:<10} found {row['found']} of {row['planted']} (at least {low:.0%}), "
            f"accused {row['false']} of {row['honest']} (at most {high:.0%})"
        )
    lines += [f"{name}: {', '.join([*found[name], *later[name]]) or 'none'}" for name in ("missed", "accused")]
    sys.stdout.write("\n".join(lines) + "\n")
