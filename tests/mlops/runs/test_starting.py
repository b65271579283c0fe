"""What a run is started with."""

from __future__ import annotations

from mlops.runs.labels import Labels
from mlops.runs.resuming import run_options
from rlft.config.file import load_config
from tests.e2e.conftest import TINY


def test_a_run_is_a_version_of_the_model_that_the_registry_names():
    config = load_config(TINY, ["promotion.name=sums", "tracking.experiment=team/sums"])
    options = run_options(config, Labels(name="first", note="a try", tags={"dataset": "1"}))
    model = options["model"]
    assert (model.name, model.version, model.description, model.tags) == ("sums", "first", "a try", ["dataset=1"])
    assert config.registry_name == "sums"
    cascading = {tag.name for tag in options["tags"] if not isinstance(tag, str) and tag.cascade}
    assert cascading == {"experiment=team/sums", "run=first"}
    assert [tag for tag in options["tags"] if isinstance(tag, str)] == ["dataset=1"]
