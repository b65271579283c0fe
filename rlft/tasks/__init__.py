"""Tasks: from rows that people have to a `TaskSet` with splits, ids and a fingerprint.

`sources.py` reads rows from files and the Hub, `reasoning_gym.py` draws them from a generator; `fields.py` finds and
formats the fields of a row, `rows.py` makes a typed `Task` of it; `splits.py` deals tasks to splits by group,
`duplicates.py` keeps a prompt from standing in two splits, `draw.py` fills splits from a generator, and `ingest.py`
does all of it and takes the fingerprint.
"""

from rlft.tasks.ingest import ingest_tasks, read_tasks

__all__ = ["ingest_tasks", "read_tasks"]
