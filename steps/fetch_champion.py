"""The policy that holds the champion alias."""

from __future__ import annotations

from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from mlops.registry.versions import download_champion
from mlops.runtime.runtime import current_runtime
from mlops.tracking.address import tracking_address
from rlft.errors import RlftError
from rlft.policy import PolicyFolder


@step(output_materializers=PolicyMaterializer)
def fetch_champion(
    tracking_uri: str, name: str, version: str, weights_hash: str
) -> Annotated[PolicyFolder, "champion_policy"]:
    """Bring a registered version back as a policy artifact, to be evaluated beside the new one."""
    del weights_hash  # part of the cache key: a deleted model may come back under the same name and version
    champion = download_champion(tracking_address(tracking_uri), name, current_runtime().new_folder())
    if champion is None or champion.version != version or champion.policy_folder is None:
        raise RlftError(
            f"version {version} of {name} is no longer the champion",
            where="registry",
            fix="`rlft resume` this run: it then compares with the new champion",
        )
    return PolicyFolder(champion.policy_folder)
