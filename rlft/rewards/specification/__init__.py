"""A reward that a domain expert writes: named criteria in plain words, each with a grader that decides.

- `model`: a specification, its criteria and its cases
- `grader`: what a grader is, and the attempt that it grades
- `graders`: the graders that are shipped
- `judge`: the protocol of judges, and what they were asked for a score
- `reading`: places to fill in, where a value stands, whether a text holds others, and how alike two are
- `scoring`: one attempt scored, criterion by criterion; a full answer; the columns that tasks' rows must have
- `words`: a specification in words
"""
