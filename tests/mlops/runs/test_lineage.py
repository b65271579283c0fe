"""What a run's model version is called and what became of it, by the summary of the run."""

from __future__ import annotations

import pytest

from mlops.runs.labels import Labels
from mlops.runs.lineage import outcome_of, registry_name, run_options
from mlops.runs.summary import Promotion, Summary
from rlft.config.file import load_config
from tests.e2e.conftest import TINY


@pytest.mark.parametrize(
    ("status", "version", "promoted", "outcome"),
    [
        ("improved", "3", True, "promoted"),
        ("improved", "3", False, "rejected"),
        ("not_improved", "3", False, "rejected"),
        ("failed", "3", False, "rejected"),  # registered, though nothing could be compared on `test`
        ("failed", None, False, "failed"),
        ("too_hard", None, False, "too_hard"),
        ("already_solved", None, False, "already_solved"),
        ("improved", None, False, "not_registered"),  # MLflow could not be reached
    ],
)
def test_the_outcome_of_a_run(status, version, promoted, outcome):
    summary = Summary(status=status, promotion=Promotion(version=version, promoted=promoted))
    assert outcome_of(summary) == outcome


def test_a_run_is_a_version_of_the_model_that_the_registry_names():
    config = load_config(TINY, ["promotion.name=sums", "tracking.experiment=team/sums"])
    options = run_options(config, Labels(name="first", note="a try", tags={"dataset": "1"}))
    model = options["model"]
    assert (model.name, model.version, model.description, model.tags) == ("sums", "first", "a try", ["dataset=1"])
    assert registry_name(config) == "sums"
    cascading = {tag.name for tag in options["tags"] if not isinstance(tag, str) and tag.cascade}
    assert cascading == {"experiment=team/sums", "run=first"}
    assert [tag for tag in options["tags"] if isinstance(tag, str)] == ["dataset=1"]
