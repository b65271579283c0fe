"""Makes a `TaskSet` with splits, ids and a fingerprint from rows of a file, a data set or a generator.

- `sources`: rows from files and the Hugging Face Hub
- `reasoning_gym`: rows from a generator of reasoning-gym, drawn until the splits are full
- `rows`: finds and formats the fields of a row, and makes a typed `Task` of it
- `splits`: deals tasks to splits by group
- `use`: tasks of what people asked a served model, beside those of the source
- `curriculum`: which tasks a round takes
- `contamination`: evaluation tasks whose text is in train tasks or demonstrations
- `ingest`: does all of it, and computes the fingerprint
"""

from rlft.tasks.ingest import ingest_tasks, read_tasks

__all__ = ["ingest_tasks", "read_tasks"]
