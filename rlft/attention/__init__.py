"""Attention that encodes what sequences have in common at their beginning once, under unmodified transformers models.

`tree` lays sequences out in one row; `partial` computes attention over some of the keys, with the log-sum-exp that is
needed to add the rest; `packed` (training) and `cache` (sampling) are made of it; `interface` makes a model use them
for one call; `support` finds out, by trying, whether a model gives the same logits with them.
"""
