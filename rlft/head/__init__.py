"""The output layer of a model: log-probabilities of chosen tokens without holding logits of tokens times vocabulary.

`split` takes a model apart into backbone and head, `blocks` computes the logits of a linear head, `blockwise` makes
log-probabilities and their gradients of such blocks, and `selected` does so for any head.
"""
