"""Pure functions that read answers from text and compare them with gold answers; rewards are made of them.

- `numbers`: exact numbers from the notations that people and models write
- `dates`: one date
- `latex`: answers in LaTeX read, bounded and brought into one notation
- `sympy_parsing`: such answers as expressions of sympy
- `symbolic`: such answers compared by math-verify
- `expressions`: which texts are safe to evaluate, and a numerical check of integrals
- `json_values`, `schemas`: the one JSON object in a text, a value within it, and whether one fits a schema
- `plain`: texts in one form, how alike two are, and how long one is
- `answers`: short answers in words compared as SQuAD does
- `lists`: a list, and cited sources
- `limited`: regular expressions that are cut at a limit of seconds
"""
