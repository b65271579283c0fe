"""Pure functions that read answers from text and compare them with gold answers; rewards are made of them.

- `numbers`: an exact number, or a date, from the notations that people and models write
- `latex`: answers in LaTeX read, bounded and brought into one notation
- `symbolic`: such answers as expressions of sympy, compared by math-verify
- `expressions`: which texts are safe to evaluate, and a numerical check of integrals
- `json_values`: the one JSON object in a text, a value within it, and whether one fits a schema
- `plain`: texts in one form, how long one is, and regular expressions cut at a limit of seconds
- `lists`: a list, short answers in words compared as SQuAD does, and cited sources
"""
