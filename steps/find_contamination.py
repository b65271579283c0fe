"""The step `find_contamination` finds evaluation tasks that are among what a model was trained on."""

from typing import Annotated

from zenml import step

from materializers.report import ReportMaterializer
from mlops.runs import cache_policies
from rlft.config import WarmStartConfig
from rlft.contamination import ContaminationReport, compare_splits
from rlft.sft.overlap import shown_texts
from rlft.types import Split, TaskSet


@step(cache_policy=cache_policies.CONTAMINATION, output_materializers=ReportMaterializer)
def find_contamination(
    tasks: TaskSet, splits: list[Split], warm_start: WarmStartConfig | None, demonstrations: str
) -> Annotated[ContaminationReport, "contamination"]:
    """Compare the tasks of `splits` with the train tasks, and with the demonstrations of a file."""
    del demonstrations  # the hash of their file, part of the cache key
    return compare_splits(tasks, splits, shown_texts(warm_start))
