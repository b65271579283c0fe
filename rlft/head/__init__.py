"""The output layer of a model: log-probabilities of chosen tokens without holding logits of tokens times vocabulary.

`split` takes a model apart into backbone and head, `blockwise` makes log-probabilities and their gradients of a linear
head in blocks that fit a buffer, and `selected` does so for any head.
"""
