"""A reward that a domain expert writes: named criteria in plain words, each with a grader that decides.

- `model`: a specification, its criteria and its cases
- `piece`: what all pieces of one have in common
- `grader`: the base class of graders
- `texts`, `values`: graders that look at a text, or at a value in it
- `finding`, `likeness`: whether a text holds others, and how alike two are
- `programs`, `judged`, `judge`: graders that are code, or ask a judge; the protocol of judges
- `compared`, `scorers`: graders that compare the attempts at a task, and that are scorers of MLflow
- `billing`: what judges were asked for a score
- `openai`: OpenAI's graders that compute
- `templates`, `reading`, `attempt`: places to fill in, where a value stands, and what an attempt is
- `columns`: the columns that a specification asks the tasks' rows for
- `golds`: how a specification writes a full answer
- `scoring`: one attempt scored, criterion by criterion
- `words`: a specification in words
- `importing`: OpenAI's graders as a specification
"""

from rlft.specification.grader import FIELDS
from rlft.specification.model import Case, Criterion, Specification

__all__ = ["FIELDS", "Case", "Criterion", "Specification"]
