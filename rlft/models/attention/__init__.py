"""Attention that encodes what sequences have in common at their beginning once, under unmodified transformers models.

`packed` lays sequences out in one row and computes attention for training on it, out of parts, and `cache` that of
sampling; `interface` makes a model use them for one call, and finds out, by trying, whether it then
gives the same logits.
"""
