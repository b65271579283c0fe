"""Tasks from use: what people asked a served model, with the answers that people gave.

- `records`: what is known of a trace or a record, and the reasons for which one is left out
- `gold`: the prompt of a record, and the right answer by what people said of it, where they agree
- `take`: all of it; tasks of `train` and `validation`, and an account of every record
"""

from rlft.tasks.use.records import Record, Said, Use

__all__ = ["Record", "Said", "Use"]
