"""The policy: the model that is trained, with its tokenizer and optimizer.

`origin` makes the first one of a run, `live` is one in memory, `folder` saves and loads it, `tokens` turns messages
into its prompts and finds those that it cannot read, `optimizer` changes its weights, `fused` speeds up its training,
`sharding` divides it among several workers, and `weights` lists its weights for vLLM.
"""

from rlft.policy.folder import PolicyFolder, load_policy, save_policy
from rlft.policy.live import Policy, PolicyMetadata

__all__ = ["Policy", "PolicyFolder", "PolicyMetadata", "load_policy", "save_policy"]
