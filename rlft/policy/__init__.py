"""The policy: the model that is trained, with its tokenizer and optimizer.

`create` and `origin` make the first one of a run, `live` is one in memory, `folder` saves and loads it, `tokens` turns
messages into its prompts, `prompts` finds those that it cannot read, `optimizer` changes its weights, `fused` speeds up
its training, `sharding` divides it among several workers, `twin` makes a second one
that is trained while the first samples, and `weights` lists its weights for vLLM.
"""

from rlft.policy.folder import PolicyFolder, load_policy, save_policy
from rlft.policy.live import Policy, PolicyMetadata

__all__ = ["Policy", "PolicyFolder", "PolicyMetadata", "load_policy", "save_policy"]
