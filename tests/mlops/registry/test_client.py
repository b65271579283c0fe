"""Records of versions are kept off the pages of MLflow, and what a person names is found."""

import pytest
from mlflow import MlflowClient

from mlops.registry.client import NamedVersion, RegistryClient, find_version, split_version
from mlops.registry.names import (
    FORMAT_TAG,
    HASH_TAG,
    MODEL_TAG,
    PASSED_TAG,
    PROMOTE_TAG,
    REASONS_TAG,
    SCORE_TAG,
    WITHHELD_TAG,
)
from rlft.errors import RlftError
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
    ours.set_model_version_tag("m", "2", WITHHELD_TAG, "true")
    shown = {key for key in theirs.get_model_version("m", "2").tags if not key.startswith("mlflow.")}
    assert shown == {SCORE, WITHHELD_TAG}
    assert ours.get_model_version("m", "2").tags == {
        HASH_TAG: "new", PROMOTE_TAG: "true", SCORE: "0.75", WITHHELD_TAG: "true",
    }  # fmt: skip


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


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    """A registry with versions 1 and 2 of `demo`, of which rlft has made the first alone."""
    uri = new_store(tmp_path_factory.mktemp("registry"))
    client = MlflowClient(uri, uri)
    client.create_registered_model("demo")
    client.create_model_version("demo", "somewhere", tags={HASH_TAG: "abc", MODEL_TAG: "m-1", FORMAT_TAG: "1"})
    client.create_model_version("demo", "somewhere")
    client.set_registered_model_alias("demo", "champion", "1")
    return uri


def test_an_alias_and_a_number_name_a_version(uri):
    expected = NamedVersion("demo", "1", "abc", "m-1", None)
    assert find_version(uri, "demo", "champion", None) == expected
    assert find_version(uri, "demo", None, "1") == expected


@pytest.mark.parametrize(
    ("name", "alias", "version", "says"),
    [
        ("other", "champion", None, "NAME: no registered model is called 'other'"),
        (
            "demo",
            "best",
            None,
            "models:/demo@best: no version has this alias",
        ),
        ("demo", None, "7", "models:/demo/7: there is no such version"),
        ("demo", None, "2", "models:/demo/2: a registered version is expected there in format version 1"),
    ],
)
def test_what_is_not_there_is_told_with_what_there_is(uri, name, alias, version, says):
    with pytest.raises(RlftError) as error:
        find_version(uri, name, alias, version)
    assert str(error.value).startswith(says)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("demo@champion", ("demo", "champion", None)),
        ("models:/demo@champion", ("demo", "champion", None)),
        ("demo/12", ("demo", None, "12")),
        ("models:/my model/v3", ("my model", None, "3")),
    ],
)
def test_a_text_is_split_into_name_and_alias_or_number(text, expected):
    assert split_version(text) == expected


@pytest.mark.parametrize(
    "text", ["", "demo", "models:/demo", "demo@", "@champion", "demo/", "/3", "demo/champion", "demo/3@x", "a/b@c"]
)
def test_a_text_that_names_no_version_is_refused(text):
    with pytest.raises(RlftError):
        split_version(text)
