"""Writes a policy to a folder that `transformers`, `peft` and `vllm serve` load as it is.

`folder` writes the adapter, or all weights with the adapter merged into them, `check` compares what was written with
the policy, and `place` writes aside and moves into place.
"""

from rlft.export.check import ExportCheck
from rlft.export.folder import Exported, export_policy

__all__ = ["ExportCheck", "Exported", "export_policy"]
