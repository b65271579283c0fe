"""The step `take_policy` takes a policy folder of rlft's that lies somewhere."""

from pathlib import Path
from typing import Annotated

from zenml import step

from materializers.policy import PolicyMaterializer
from rlft.policy import PolicyFolder


@step(enable_cache=False, output_materializers=PolicyMaterializer)
def take_policy(folder: str) -> Annotated[PolicyFolder, "policy"]:
    """Make an artifact of a policy folder, once its weights are those that it says. Not cached: it may have changed."""
    found = PolicyFolder(Path(folder))
    found.check()
    return found
