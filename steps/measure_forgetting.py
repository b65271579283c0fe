"""The step `measure_forgetting` measures how well a policy predicts texts that have nothing to do with its task."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from mlops.runs.runtime import current_runtime
from rlft.forgetting import TextBits, measure_bits, shipped_texts
from rlft.policy import PolicyFolder


@step(cache_policy=cache_policies.FORGETTING, output_materializers=ReportMaterializer)
def measure_forgetting(policy: PolicyFolder, device: str, texts: str) -> Annotated[TextBits, "text_bits"]:
    """Measure the bits per byte that the policy needs for the shipped texts."""
    del texts  # their fingerprint, part of the cache key
    runtime = current_runtime()
    return measure_bits(runtime.policies.of(policy, device), shipped_texts(), progress=runtime.lent.progress)
