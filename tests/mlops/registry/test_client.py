"""Records of a version are stored where MLflow shows them to nobody, and read as those of earlier rlft are."""

import pytest
from mlflow import MlflowClient

from mlops.registry.client import RegistryClient
from mlops.registry.names import AGAIN_TAG, HASH_TAG, MODEL_TAG, PASSED_TAG, PROMOTE_TAG, REASONS_TAG, SCORE_TAG
from tests.mlflow_stores import new_store

SCORE = f"{SCORE_TAG}accuracy"


@pytest.fixture
def both(tmp_path) -> tuple[RegistryClient, MlflowClient]:
    """Our client and MLflow's own, over a registry with a version that an earlier rlft wrote and one of now."""
    address = new_store(tmp_path)
    ours, theirs = RegistryClient(address), MlflowClient(address)
    ours.create_registered_model("m")
    theirs.create_model_version("m", source="x", tags={HASH_TAG: "old", PROMOTE_TAG: "true", SCORE: "0.5"})
    ours.create_model_version("m", source="x", tags={HASH_TAG: "new", PROMOTE_TAG: "true", SCORE: "0.75"})
    return ours, theirs


def test_what_a_person_reads_is_shown_and_records_are_hidden(both):
    ours, theirs = both
    ours.set_model_version_tag("m", "2", AGAIN_TAG, "true")
    shown = {key for key in theirs.get_model_version("m", "2").tags if not key.startswith("mlflow.")}
    assert shown == {SCORE}
    assert ours.get_model_version("m", "2").tags == {
        HASH_TAG: "new", PROMOTE_TAG: "true", SCORE: "0.75", AGAIN_TAG: "true",
    }  # fmt: skip
    ours.set_registered_model_alias("m", "champion", "2")
    assert ours.get_model_version_by_alias("m", "champion").tags[HASH_TAG] == "new"


def test_every_version_is_found_with_its_records(both):
    ours, _ = both
    found = ours.search_model_versions("name = 'm'", order_by=["version_number"])
    assert [each.tags[HASH_TAG] for each in found] == ["old", "new"]
    assert {each.tags[HASH_TAG] for each in ours.all_versions()} == {"old", "new"}


def test_a_record_that_is_written_again_is_the_newer_one(both):
    ours, _ = both
    ours.set_model_version_tag("m", "1", HASH_TAG, "mended")
    assert ours.get_model_version("m", "1").tags[HASH_TAG] == "mended"
    ours.set_model_version_tag("m", "2", HASH_TAG, "mended, too")
    assert ours.get_model_version("m", "2").tags[HASH_TAG] == "mended, too"


def test_the_score_comes_first_and_records_are_elsewhere(both):
    ours, theirs = both
    tags = {
        HASH_TAG: "a",
        "round": "3",
        REASONS_TAG: "b",
        PROMOTE_TAG: "false",
        SCORE: "0.5",
        MODEL_TAG: "m-1",
        "team": "c",
        PASSED_TAG: "fails: answers",
    }
    made = ours.create_model_version("m", source="x", tags=tags)
    assert made.tags == tags
    assert list(theirs.get_model_version("m", "3").tags) == [SCORE, "round", "team", PASSED_TAG, "mlflow.rlft.record"]


@pytest.mark.parametrize("damaged", ["", "no json", "[]", "null", '{"rlft.weights_hash": 5, "other": "x"}', "[" * 9000])
def test_a_damaged_record_holds_nothing(both, damaged):
    ours, theirs = both
    theirs.set_model_version_tag("m", "2", "mlflow.rlft.record", damaged)
    assert ours.get_model_version("m", "2").tags == {SCORE: "0.75"}


def test_notes_of_a_model_are_hidden(both):
    ours, theirs = both
    notes = dict.fromkeys(("rlft.look.a.c", "rlft.gate.a", "rlft.differs.a.accuracy", "rlft.change.1", "team"), "new")
    for key, value in notes.items():
        ours.set_registered_model_tag("m", key, value)
    assert {key for key in theirs.get_registered_model("m").tags if not key.startswith("mlflow.")} == {"team"}
    assert ours.get_registered_model("m").tags == notes
