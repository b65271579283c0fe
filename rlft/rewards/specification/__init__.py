"""A reward that a domain expert writes: named criteria in plain words, each with a grader that decides.

- `model`: a specification, its criteria and its cases, and the same in words
- `grader`: what a grader is, the attempt that it grades, the protocol of judges, and what they were asked
- `graders`: the graders that are shipped
- `reading`: places to fill in, where a value stands, and whether a text holds others
- `scoring`: one attempt scored, criterion by criterion; a full answer
"""
