"""The cases of the audit's benchmark. They were written without knowledge of the attacks, and are never changed."""

from benchmarks.audit.families import checked, code, form, honest, judging, matching, parsing, tools

BROKEN = (*matching.CASES, *form.CASES, *parsing.CASES, *tools.CASES, *judging.CASES, *code.CASES)
"""Rewards with a loophole: some attempt that is no right answer earns as much as the gold, or nearly."""
HONEST = (*honest.CASES, *checked.CASES)
"""Rewards without one, of the sort that a careless auditor accuses."""
