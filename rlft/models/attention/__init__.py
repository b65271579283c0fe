"""Attention that encodes what sequences have in common at their beginning once, under unmodified transformers models.

`tree` lays sequences out in one row; `packed` computes attention for training on such a row, out of parts of it, and
`cache` that of sampling; `interface` makes a model use them for one call, and finds out, by trying, whether it then
gives the same logits.
"""
