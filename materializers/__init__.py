"""How artifacts are stored: tables as parquet, policies as folders of safetensors, reports as JSON. Never pickle.

Each materializer gives a content hash, so that caching looks at what an artifact is and not at when it was made.
"""

from materializers.policy import PolicyMaterializer
from materializers.report import ReportMaterializer
from materializers.tables import RewardsMaterializer, RolloutsMaterializer, TaskSetMaterializer

__all__ = [
    "PolicyMaterializer",
    "ReportMaterializer",
    "RewardsMaterializer",
    "RolloutsMaterializer",
    "TaskSetMaterializer",
]
