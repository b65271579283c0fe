"""The page of the summary, made from its fields: `python -m tests.summary_page > docs/guide/summary.md`."""

import json
import sys

from mlops.summary.summary import (
    Baseline,
    Contamination,
    Difference,
    Ledger,
    Promotion,
    Seconds,
    Section,
    Summary,
    TextChange,
)

HEAD = """# The summary

The summary says what a run came to. It is printed at the end; `rlft run CONFIG --summary FILE` also writes it as JSON,
to a new or empty file or in the place of an older summary; any other file is left alone and refused.
It is always in `.rlft/runs/` and among the artifacts of the MLflow run. This page is made from
`mlops/summary/summary.py`.
"""
TAIL = """
The metrics of an arm are means over all tasks that were scored for that arm. Those of a difference are over the tasks
that were scored for both arms, so `before` and `after` may differ a little from the arms' own metrics.

Metrics: `accuracy` (the share of solved attempts; solved means that the full reward was earned), `reward`,
`rewards/<part>`, `avg_at_k`, `pass_at_k`, `maj_at_k` ([glossary](glossary.md#what-it-came-to)).

The exit codes stand with [what can happen to a run](runs.md#exit-codes).

## JSON schema
"""


def page() -> str:
    """Every key with its meaning, then the schema that programs may check a summary with."""
    parts = [HEAD, table(Summary)]
    for section in (Difference, Contamination, TextChange, Baseline, Ledger, Promotion, Seconds):
        doc = " ".join((section.__doc__ or "").split())
        parts += [f"## {section.__name__}\n\n{doc}\n", table(section)]
    schema = json.dumps(Summary.model_json_schema(mode="serialization"), indent=1, ensure_ascii=False)
    return "\n".join([*parts, TAIL, f"```json\n{schema}\n```\n"])


def table(section: type[Section]) -> str:
    """The keys of a section."""
    rows = [f"| `{name}` | {field.description or ''} |" for name, field in section.model_fields.items()]
    return "\n".join(["| Key | Meaning |", "|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
