"""Attention that encodes a prompt once for all its completions, under unmodified transformers models.

`partial` is attention over some of the keys, with what is needed to add the rest; `packed` (training) and `cache`
(sampling) are made of it; `interface` puts them under a model; `support` finds out whether the model takes it.
"""
