"""The step `fetch_version` downloads the policy of a registered version."""

from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from mlops.registry.client import download_version
from mlops.runs.runtime import current_runtime
from mlops.tracking.address import PATIENT_HTTP, answering, tracking_address
from rlft.policy import PolicyFolder


@step(enable_cache=False, output_materializers=PolicyMaterializer)
def fetch_version(tracking_uri: str, name: str, version: str) -> Annotated[PolicyFolder, "policy"]:
    """Make a policy artifact of a version, once its files are those that were registered. Not cached for that reason.

    Raises DamagedError for files that have changed, and TrackerError if MLflow gives none.
    """
    address = tracking_address(tracking_uri)
    with answering(address, PATIENT_HTTP):
        return PolicyFolder(download_version(address, name, version, current_runtime().new_folder()))
