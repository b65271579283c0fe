"""The policy: the model that is trained, with its tokenizer and optimizer.

`create` and `origin` make the first one of a run, `folder` holds it in memory and on disk, `tokens` turns messages into
its prompts, `optimizer` changes its weights, `fused` speeds up its training, and `weights` lists its weights for vLLM.
"""

from rlft.policy.folder import Policy, PolicyFolder, PolicyMetadata, load_policy, save_policy

__all__ = ["Policy", "PolicyFolder", "PolicyMetadata", "load_policy", "save_policy"]
