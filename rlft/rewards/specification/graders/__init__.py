"""The graders that are shipped, by type; a file holds those with the same subject.

- `texts`, `values`: graders that look at a text, or at a value in it
- `judged`: graders that ask a function of the user's, or a judge

Every class with a `type` in a file of this room can be chosen by a criterion's `grader: {type: ...}`
(`rlft.rewards.specification.model.GRADERS`). Its fields are the settings there; its docstring stands in
docs/guide/graders.md, and what it `says` in a specification in words.
"""
