"""What a text is worth: pure functions of text that rewards are made of.

- `numbers`, `notation`: exact numbers from the notations people and models write
- `latex`, `symbolic`, `expansion`: answers in LaTeX compared by math-verify, and what comparing them may cost
- `expressions`, `antiderivatives`: which texts may be evaluated at all, and integrals
- `json_object`: the one JSON object in a text
- `answers`, `cited`: short answers in words as SQuAD compares them; an answer with its sources
"""
