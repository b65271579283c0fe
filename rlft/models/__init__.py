"""The policy: the model that is trained, with its tokenizer and optimizer, and how it is read.

`origin` makes the first one of a run, `live` is one in memory, `folder` saves and loads it, `tokens` turns messages
into its prompts and finds those that it cannot read, `optimizer` changes its weights, `fused` speeds up its training,
`sharding` divides it among several workers, and `flops` counts what it costs.

`export` writes what other programs load, and lists weights for vLLM.

`attention` encodes what sequences have in common once. `head` takes the output layer apart from the layers below it and
computes log-probabilities of chosen tokens alone, `blockwise` block by block.
"""

from rlft.models.folder import PolicyFolder, load_policy, save_policy
from rlft.models.live import Policy, PolicyMetadata

__all__ = ["Policy", "PolicyFolder", "PolicyMetadata", "load_policy", "save_policy"]
