"""Whose commit is recorded as whose."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mlops.runs import identity
from mlops.runs.identity import rlft_commit, users_commits
from rlft.config import Config
from rlft.config.file import load_config
from tests.e2e.conftest import TINY

SHIPPED = "rlft.environments.reasoning_gym:ReasoningGym"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def naming(environment: str, *overrides: str) -> Config:
    """A config that names this environment."""
    return load_config(TINY, [f"environment.name={environment}", *overrides])


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    """A user's repository with a config and an environment, as the working directory."""
    root = tmp_path / "mine"
    (root / "configs").mkdir(parents=True)
    (root / "configs" / "mine.yaml").write_text("name: mine\n")
    (root / "sums.py").write_text("class Sums: ...\n")
    git(tmp_path, "init", "-q", str(root))
    git(root, "remote", "add", "origin", "https://me:ghp_0123456789abcdefghij@example.org/mine.git")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    monkeypatch.chdir(root)
    return root


def test_the_users_commit_is_theirs_and_rlfts_is_rlfts(repository):
    head = git(repository, "rev-parse", "HEAD")
    found = users_commits(Path("configs/mine.yaml"), naming("sums.py:Sums"))
    assert found == {"config": head, "environment.name": head, "working_directory": head}
    assert rlft_commit() != head
    assert users_commits(Path("configs/mine.yaml"), naming(SHIPPED))["environment.name"] == "rlft's own"


def test_a_loss_of_ones_own_and_rewards_in_arguments_have_their_commits_and_a_shipped_loss_none(repository, tmp_path):
    head = git(repository, "rev-parse", "HEAD")
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(repository), str(other))
    git(other, "commit", "-q", "--allow-empty", "-m", "second")
    second = git(other, "rev-parse", "HEAD")
    settings = [f"training.loss_type={other / 'sums.py'}:Mine", "environment.kwargs={format: 'standard:x'}"]
    found = users_commits(Path("configs/mine.yaml"), naming("sums.py:Sums", *settings))
    assert found == {"config": head, "environment.name": head, "training.loss_type": second, "working_directory": head}
    functions = f"[sums.py:one, '{other / 'sums.py'}:two', sums.py:three]"
    settings = [f"environment.kwargs.reward_functions={functions}"]
    found = users_commits(Path("configs/mine.yaml"), naming("sums.py:Sums", *settings))
    assert found["environment.kwargs"] == f"{head}, {second}"
    assert "training.loss_type" not in found


def test_functions_of_a_written_reward_have_their_commit(repository):
    (repository / "rewards.py").write_text("def nice(value, item):\n    return 1.0\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "second")
    grader = "{type: function, function: 'rewards.py:nice'}"
    spec = f"reward.spec={{criteria: {{nice: {{says: It is nice., grader: {grader}}}}}}}"
    found = users_commits(Path("configs/mine.yaml"), naming("sums.py:Sums", spec))
    assert found["reward.spec"] == found["environment.name"] == git(repository, "rev-parse", "HEAD")


def test_a_changed_file_is_dirty(repository):
    head = git(repository, "rev-parse", "HEAD")
    (repository / "sums.py").write_text("class Sums: pass\n")
    assert set(users_commits(Path("configs/mine.yaml"), naming("sums.py:Sums")).values()) == {f"{head}-dirty"}


def test_a_file_that_was_never_added_is_dirty_and_its_neighbours_are_not(repository):
    head = git(repository, "rev-parse", "HEAD")
    (repository / "new.py").write_text("class New: ...\n")
    found = users_commits(Path("configs/mine.yaml"), naming("new.py:New"))
    assert found == {"config": head, "environment.name": f"{head}-dirty", "working_directory": head}


def test_each_file_has_the_commit_of_its_own_repository(repository, tmp_path):
    head = git(repository, "rev-parse", "HEAD")
    (tmp_path / "plain.yaml").write_text("name: plain\n")
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(repository), str(other))
    git(other, "commit", "-q", "--allow-empty", "-m", "second")
    found = users_commits(tmp_path / "plain.yaml", naming(f"{other / 'sums.py'}:Sums"))
    second = git(other, "rev-parse", "HEAD")
    assert found == {"config": "no repository", "environment.name": second, "working_directory": head}


def test_a_package_that_is_installed_within_the_repository_is_not_of_it(repository):
    package = repository / ".venv" / "lib" / "site-packages" / "theirs.py"
    package.parent.mkdir(parents=True)
    package.write_text("class Theirs: ...\n")
    assert users_commits(Path("configs/mine.yaml"), naming(f"{package}:Theirs"))["environment.name"] == "no repository"


def test_an_rlft_within_a_repository_of_the_user_has_no_commit_of_its_own(repository, monkeypatch):
    monkeypatch.setattr(identity, "PROJECT", repository / "configs")
    assert rlft_commit() == "unknown"


def test_rlfts_clone_as_the_users_is_said_to_be_so(repository, monkeypatch):
    monkeypatch.setattr(identity, "PROJECT", repository)
    assert rlft_commit() == git(repository, "rev-parse", "HEAD")
    assert set(users_commits(Path("configs/mine.yaml"), naming("sums.py:Sums")).values()) == {"rlft's own"}


def test_before_the_first_commit_and_without_git_it_is_unknown(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q", "empty")
    config = tmp_path / "empty" / "mine.yaml"
    config.write_text("name: mine\n")
    assert users_commits(config, naming("nowhere.at_all:Class"))["config"] == "unknown"
    assert users_commits(config, naming("nowhere.at_all:Class"))["environment.name"] == "unknown"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert users_commits(config, naming(SHIPPED))["config"] == "no repository"


def test_no_command_of_a_repository_is_run(repository, tmp_path):
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "config", "core.fsmonitor", f"touch {tmp_path / 'ran'}; true")
    assert users_commits(Path("configs/mine.yaml"), naming("sums.py:Sums"))["config"] == head
    assert not (tmp_path / "ran").exists()
