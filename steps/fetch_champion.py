"""The step `fetch_champion` downloads the policy that holds the champion alias."""

from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from mlops.registry.client import current_champion, download_version
from mlops.runs.runtime import current_runtime
from mlops.tracking.address import PATIENT_HTTP, answering, tracking_address
from rlft.errors import RlftError
from rlft.policy import PolicyFolder


@step(output_materializers=PolicyMaterializer)
def fetch_champion(
    tracking_uri: str, name: str, version: str, weights_hash: str
) -> Annotated[PolicyFolder, "champion_policy"]:
    """Make a policy artifact of the registered version, to be evaluated beside the new one.

    Raises RlftError if another version has become champion since the pipeline's body asked, and TrackerError if MLflow
    gives none.
    """
    del weights_hash  # part of the cache key: a deleted model may come back under the same name and version
    address = tracking_address(tracking_uri)
    with answering(address, PATIENT_HTTP):
        champion = current_champion(address, name)
        if champion is None or champion.version != version:
            raise RlftError(
                f"version {version} of {name} is no longer the champion",
                where="registry",
                fix="`rlft resume` goes on with the run, and compares with the new champion",
            )
        return PolicyFolder(download_version(address, name, version, current_runtime().new_folder()))
