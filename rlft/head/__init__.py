"""The output layer of a model: log-probabilities of chosen tokens without holding logits of tokens times vocabulary.

`split` takes a model apart into backbone and head, `blockwise` works through a head in blocks, and `selected` gives
log-probabilities with their gradients.
"""
