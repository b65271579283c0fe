"""What a run can be called, and what is refused with a sentence."""

from __future__ import annotations

import re

import pytest

from mlops.runs.labels import labels_of, make_labels, short_name
from rlft.errors import RlftError

ESCAPE, LONG = "a=\x1b[31m", f"a={'x' * 250}"


def labels(name=None, tags=()):
    return make_labels("demo", name=name, tags=tags, commits={"config": "no repository"})


def test_all_that_was_given_is_kept():
    made = labels("sums, second try", ["dataset=2026-11", "url=a=b"])
    assert made.model_dump() == {
        "name": "sums, second try",
        "tags": {"dataset": "2026-11", "url": "a=b"},
        "commits": {"config": "no repository"},
    }
    assert labels_of(made.model_dump(mode="json")) == made


def test_without_a_name_it_is_the_experiments_with_the_day():
    assert re.fullmatch(r"demo-\d{4}-\d\d-\d\d-[0-9a-f]{4}", labels().name)


def test_such_a_name_tells_what_differs_from_the_config():
    given = [
        "training.learning_rate=3e-4",
        "seed=1",
        "policy.path=a/b",
        "rollout.api_key=sk-aaaabbbbccccdddd1111",
        "x=" + "y" * 99,
    ]
    made = make_labels("demo", name=None, tags=(), commits={}, overrides=given)
    assert re.fullmatch(r"demo-learning_rate=3e-4,seed=1-\d{4}-\d\d-\d\d-[0-9a-f]{4}", made.name)


def test_a_run_of_before_has_its_name_alone():
    assert labels_of(None, "demo-1").name == "demo-1"


@pytest.mark.parametrize(
    "name",
    ["", "a/b", "a:b", " a", "a\x1b[31m", "-x", "{date}", "a-resumed-1", "x" * 201],
)
def test_names_that_cannot_be_found_again_are_refused(name):
    with pytest.raises(RlftError) as refused:
        labels(name)
    assert refused.value.where == "--name"
    assert refused.value.fix


@pytest.mark.parametrize(
    "tag",
    ["novalue", "=x", "key=", "1st=x", "a b=x", "mlflow.user=me", "rlft.status=fine", "round=3", ESCAPE, LONG],
)
def test_tags_that_mean_something_else_are_refused(tag):
    with pytest.raises(RlftError) as refused:
        labels(tags=[tag])
    assert refused.value.where == "--tag"


@pytest.mark.parametrize(
    "given",
    [
        {"tags": ["api_key=q8Zt4Lm2Xw9"]},
        {"tags": ["ghp_0123456789abcdefghij=1"]},
        {"name": "ghp_0123456789abcdefghij"},
    ],
)
def test_a_secret_is_refused_and_not_repeated(given):
    with pytest.raises(RlftError, match="looks like a secret") as refused:
        labels(**given)
    assert "ghp_0123456789" not in str(refused.value)
    assert "q8Zt4Lm2Xw9" not in str(refused.value)


def test_a_short_name_has_the_ends_of_the_keys_and_no_sign_that_a_name_cannot_have():
    assert short_name({"training.learning_rate": "3e-4", "seed": "1"}) == "learning_rate=3e-4,seed=1"
    assert short_name({"a.path": "x/y", "b.rate": "z"}) == "path=x_y,rate=z"
    assert short_name({"key": "x" * 100}) == "key=" + "x" * 56
    assert short_name({}) == ""


def test_a_short_name_ends_with_a_whole_setting():
    changes = {"a.steps": "4" * 30, "b.batch_size": "16", "c.rate": "1e-3"}
    assert short_name(changes) == f"steps={'4' * 30},batch_size=16,rate=1e-3"  # 36, 13 and 9 characters, and two commas
    assert short_name(changes | {"a.steps": "4" * 31}) == f"steps={'4' * 31},batch_size=16"
