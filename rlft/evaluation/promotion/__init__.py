"""Decides from evaluation reports whether a trained policy becomes the champion, and says why.

- `decide`: the decision, what it holds, and what the registry makes of it
- `rules`: what must hold, the improvement and the rules beside it, and what each of them says
"""
