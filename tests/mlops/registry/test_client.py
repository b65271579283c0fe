"""Records of a version are stored where MLflow shows them to nobody, and read as those of earlier rlft are."""

import pytest
from mlflow import MlflowClient

from mlops.registry.client import RegistryClient
from mlops.registry.names import DONE_TAG, HASH_TAG, MODEL_TAG, PASSED_TAG, PROMOTE_TAG, REASONS_TAG, SCORE_TAG

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


def test_notes_of_a_model_are_hidden_and_read_beside_those_of_earlier_rlft(both):
    ours, theirs = both
    theirs.set_registered_model_tag("m", "rlft.look.a.b", "1/20/0.05")
    theirs.set_registered_model_tag("m", "rlft.look.a.d", "/20/")
    for key in ("rlft.look.a.c", "rlft.gate.a", "rlft.differs.a.accuracy", "rlft.change.1", "rlft.changed.1", "team"):
        ours.set_registered_model_tag("m", key, "new")
    ours.set_registered_model_tag("m", "rlft.look.a.d", "2/20/0.1")  # begun by earlier rlft, and ended by this one
    shown = {key for key in theirs.get_registered_model("m").tags if not key.startswith("mlflow.")}
    assert shown == {"rlft.look.a.b", "rlft.look.a.d", "team"}
    assert ours.get_registered_model("m").tags == {
        "rlft.look.a.b": "1/20/0.05", "rlft.look.a.d": "2/20/0.1", "rlft.look.a.c": "new", "rlft.gate.a": "new",
        "rlft.differs.a.accuracy": "new", "rlft.change.1": "new", "rlft.changed.1": "new", "team": "new",
    }  # fmt: skip
