"""Records of a version are stored where MLflow shows them to nobody, and read as those of earlier rlft are."""

import pytest
from mlflow import MlflowClient

from mlops.registry.client import RegistryClient
from mlops.registry.names import DONE_TAG, HASH_TAG, PROMOTE_TAG, SCORE_TAG

SCORE = f"{SCORE_TAG}accuracy"


@pytest.fixture
def both(tmp_path) -> tuple[RegistryClient, MlflowClient]:
    """Our client and MLflow's own, over a registry with a version that an earlier rlft wrote and one of now."""
    ours, theirs = (kind(f"sqlite:///{tmp_path}/mlflow.db") for kind in (RegistryClient, MlflowClient))
    ours.create_registered_model("m")
    theirs.create_model_version("m", source="x", tags={HASH_TAG: "old", PROMOTE_TAG: "true", SCORE: "0.5"})
    ours.create_model_version("m", source="x", tags={HASH_TAG: "new", PROMOTE_TAG: "true", SCORE: "0.75"})
    return ours, theirs


def test_what_a_person_reads_is_shown_and_records_are_hidden(both):
    ours, theirs = both
    ours.set_model_version_tag("m", "2", DONE_TAG, "true")
    shown = {key for key in theirs.get_model_version("m", "2").tags if not key.startswith("mlflow.")}
    assert shown == {SCORE}
    assert ours.get_model_version("m", "2").tags == {
        HASH_TAG: "new", PROMOTE_TAG: "true", SCORE: "0.75", DONE_TAG: "true",
    }  # fmt: skip
    ours.set_registered_model_alias("m", "champion", "2")
    assert ours.get_model_version_by_alias("m", "champion").tags[HASH_TAG] == "new"


def test_versions_of_earlier_rlft_are_found_with_those_of_now(both):
    ours, _ = both
    found = ours.search_model_versions(f"name = 'm' AND tags.`{PROMOTE_TAG}` = 'true'")
    assert [(each.version, each.tags[HASH_TAG]) for each in found] == [(2, "new"), (1, "old")]
    [newest] = ours.search_model_versions(f"name = 'm' AND tags.`{PROMOTE_TAG}` = 'true'", max_results=1)
    assert newest.version == 2
    assert [each.version for each in ours.search_model_versions(f"tags.`{HASH_TAG}` = 'old'")] == [1]
    assert [each.tags[HASH_TAG] for each in ours.search_model_versions("name = 'm'", order_by=["version_number"])] == [
        "old", "new",
    ]  # fmt: skip


def test_a_record_that_is_written_again_is_the_newer_one(both):
    ours, theirs = both
    ours.set_model_version_tag("m", "1", HASH_TAG, "mended")
    assert ours.get_model_version("m", "1").tags[HASH_TAG] == "mended"
    ours.delete_model_version_tag("m", "2", HASH_TAG)
    assert HASH_TAG not in ours.get_model_version("m", "2").tags
    assert f"mlflow.{HASH_TAG}" not in theirs.get_model_version("m", "2").tags
