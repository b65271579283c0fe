import pytest
from mlflow import MlflowClient

from mlops.registry.named import NamedVersion, find_version, split_version
from mlops.registry.names import HASH_TAG, MODEL_TAG
from rlft.errors import RlftError
from tests.mlflow_stores import new_store


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    """A registry with versions 1 and 2 of `demo`, of which rlft has made the first alone."""
    uri = new_store(tmp_path_factory.mktemp("registry"))
    client = MlflowClient(uri, uri)
    client.create_registered_model("demo")
    client.create_model_version("demo", "somewhere", tags={HASH_TAG: "abc", MODEL_TAG: "m-1"})
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
        ("demo", "best", None, "models:/demo@best: no version has this alias; there are: champion"),
        ("demo", None, "7", "models:/demo/7: there is no such version"),
        ("demo", None, "2", "models:/demo/2: this version was not registered by rlft"),
    ],
)
def test_what_is_not_there_is_told_with_what_there_is(uri, name, alias, version, says):
    with pytest.raises(RlftError) as error:
        find_version(uri, name, alias, version)
    assert str(error.value).startswith(says)


def test_an_alias_that_is_mistyped_leads_to_the_one_that_was_meant(uri):
    with pytest.raises(RlftError, match=r"what to do: did you mean champion\?"):
        find_version(uri, "demo", "challanpion", None)


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
