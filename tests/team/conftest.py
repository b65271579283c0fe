"""A team of two: their servers run once for all tests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.e2e.conftest import Result
from tests.e2e.test_promotion import CONFIG as LEARNS
from tests.e2e.test_promotion import learning_home
from tests.needs import need_team
from tests.team import servers as own
from tests.team.users import ON, Member, at_once


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory):
    need_team()
    with own.team(tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture(scope="session")
def admin(servers, tmp_path_factory) -> Member:
    """Who sets the stack up, as the guide has it."""
    who = Member(tmp_path_factory.mktemp("admin"), "admin", servers)
    who.zenml("login", servers.zenml)
    for name in ("anna", "ben", "carl"):
        who.zenml("user", "create", name, typed=f"{own.PASSWORD}\n")
        who.mlflow_user(name)
    who.write("s3.json", {"key": own.VALUES["S3_KEY"], "secret": own.VALUES["S3_SECRET"]})
    who.zenml("secret", "create", "s3", "--values=@s3.json")
    return who


@pytest.fixture(scope="session")
def anna(admin, tmp_path_factory) -> Member:
    """A user with the stack."""
    return joined(Member(tmp_path_factory.mktemp("anna"), "anna", admin.servers))


@pytest.fixture(scope="session")
def ben(anna, tmp_path_factory) -> Member:
    """A second user with the stack."""
    return joined(Member(tmp_path_factory.mktemp("ben"), "ben", anna.servers))


def joined(who: Member) -> Member:
    """Log in, take another password at MLflow, make the secret, and apply the stack."""
    who.zenml("login", who.servers.zenml)
    who.write("mlflow.json", {"username": who.name, "password": own.NEW_PASSWORD})
    both = {"current_password": own.PASSWORD, "password": own.NEW_PASSWORD}
    who.write("password.json", {"username": who.name, **both})
    who.curl(f"{who.name}:{own.PASSWORD}", "users/update-password", "@password.json", "--request", "PATCH")
    who.zenml("secret", "create", "mlflow", "--private", "--values=@mlflow.json")
    applied = who.rlft("stack", str(own.ROOT / "configs" / "stacks" / "team.yaml"))
    assert applied.code == 0, applied.output
    return who


@pytest.fixture(scope="session")
def trained(anna, ben) -> Sequence[Result]:
    """A run of each that learns, begun at the same moment, of one experiment and one registered model."""
    learning_home(anna)
    learning_home(ben)
    settings = ["--set", "promotion.approval=none", "--set", "tracking={trace_rollouts: 1}"]
    runs = at_once(
        lambda: anna.rlft("run", str(LEARNS), *ON, *settings, "--name", "annas"),
        lambda: ben.rlft("run", str(LEARNS), *ON, *settings, "--name", "bens", "--set", "seed=1"),
    )
    for run in runs:
        assert run.code == 0, run.output
    return runs
