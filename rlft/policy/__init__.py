"""The model that is trained: where it comes from (`origin`), how it is stored (`folder`), how it reads (`tokens`).

`optimizer` changes it; `rlft.head` is its output layer.
"""

from rlft.policy.folder import Policy, PolicyFolder, PolicyMetadata, load_policy, save_policy

__all__ = ["Policy", "PolicyFolder", "PolicyMetadata", "load_policy", "save_policy"]
