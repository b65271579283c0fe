"""Pure functions that read answers from text and compare them with gold answers; rewards are made of them.

- `numbers`: exact numbers from the notations that people and models write
- `latex`, `notation`: answers in LaTeX read, bounded and brought into one notation
- `sympy_parsing`, `symbolic`, `expansion`: such answers parsed and compared by math-verify and sympy, and what
  comparing them may cost
- `expressions`, `antiderivatives`: which texts are safe to evaluate, and a numerical check of integrals
- `json_object`: the one JSON object in a text
- `answers`, `cited`: short answers in words compared as SQuAD does; an answer declared with its sources
- `plain`, `similarity`, `sizes`, `languages`: texts in one form, how alike two are, how long one is, and its language
- `dates`, `quantities`, `amounts`: one date, a number with its unit, and an amount of money
- `lists`, `citations`: a list, and cited sources
- `json_paths`, `schemas`: a value within a JSON value, and whether one fits a schema
- `limited`, `patterns`: regular expressions that are cut at a limit of seconds, if need be in a process of their own
- `formulas`, `intervals`: arithmetic on names, and between which numbers its result lies
"""
