"""Attention that encodes a prompt once for all its completions, under unmodified transformers models.

`partial` computes attention over some of the keys, with the log-sum-exp that is needed to add the rest; `packed`
(training) and `cache` (sampling) are made of it; `interface` makes a model use them for one call; `support` finds out,
by trying, whether a model gives the same logits with them.
"""
