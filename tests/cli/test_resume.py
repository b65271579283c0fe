"""cli.resume: the name of a run is held from the first moment on, so that no removal takes the run away."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from cli.resume import check_place, claim_early, find_damage
from mlops.home.folder import Home
from mlops.home.processes import LOCK, locked
from mlops.runs.store import RunStore
from rlft.config.file import load_config
from rlft.errors import DamagedError, NotReadyError, RlftError
from rlft.estimation import readiness
from tests.e2e.conftest import TINY
from tests.mlops.made import make_run


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path)
    for name in ("sums-1", "sums-2", "gcd"):
        RunStore(home).start(make_run(f"{name}-id", name), name)
    return home


@pytest.mark.parametrize(
    ("status", "damaged", "lost", "found"),
    [
        ("failed", [], {"register_policy"}, set()),  # the registry is not read for what has not finished
        ("failed", ["train"], set(), {"train"}),
        ("completed", ["train"], {"register_policy"}, {"train", "register_policy"}),
        ("completed", [], {"register_policy"}, {"register_policy"}),
        ("completed", [], set(), None),
    ],
)
def test_of_a_finished_run_only_what_is_damaged_is_left_to_do(home, monkeypatch, status, damaged, lost, found):
    errors = {step: DamagedError("gone", where="f", run="a", step=step) for step in damaged}
    monkeypatch.setattr("mlops.runs.resuming.damages_of", lambda *_: errors)
    monkeypatch.setattr("mlops.runs.resuming.lost_registration", lambda *_: lost)
    run = SimpleNamespace(name="a", status=SimpleNamespace(value=status))
    again = SimpleNamespace(inputs={"tracking_uri": "sqlite:///no.db"}, config=load_config(TINY, []))
    if found is None:
        with pytest.raises(RlftError, match="has finished"):
            find_damage(home, run, again)
    else:
        assert find_damage(home, run, again) == found


def lock_of_gcd(home):
    """What another process takes."""
    return locked(home.run_folder("gcd") / LOCK, seconds=0, refused=RuntimeError)


@pytest.mark.parametrize("asked", ["gcd", "gcd-id", "g"])
def test_a_removal_cannot_take_a_run_whose_resume_has_begun(home, asked):
    with ExitStack() as held:
        assert claim_early(home, asked, None, held) == "gcd"
        with pytest.raises(RuntimeError), lock_of_gcd(home):
            pass
    with lock_of_gcd(home):  # given back at the end
        pass


@pytest.mark.parametrize(("asked", "stack"), [("gcd", "team"), ("unknown", "team")])
def test_what_lies_on_a_stack_is_left_to_zenml(home, asked, stack):
    with ExitStack() as held:
        assert claim_early(home, asked, stack, held) is None
        with lock_of_gcd(home):
            pass


@pytest.mark.parametrize(("asked", "said"), [("unknown", "no run is called 'unknown'"), ("sums", "runs begin with")])
def test_a_run_that_there_is_not_is_refused_at_once(home, asked, said):
    with ExitStack() as held, pytest.raises(RlftError, match=said):
        claim_early(home, asked, None, held)


def test_a_run_that_goes_on_finds_too_few_gpus_before_it_begins(monkeypatch):
    config = load_config(TINY, ["distributed={engine: ray, trainers: 4}"])
    monkeypatch.setattr(readiness, "is_installed", lambda _: True)
    monkeypatch.setattr(readiness, "gpus_here", lambda: [1] * 4)
    check_place(config, None)
    monkeypatch.setattr(readiness, "gpus_here", lambda: [1] * 3)
    with pytest.raises(NotReadyError, match="need a GPU each, and this machine has 3"):
        check_place(config, None)
    monkeypatch.setattr(readiness, "is_installed", lambda _: False)
    with pytest.raises(NotReadyError, match="Ray is not installed"):
        check_place(config, None)
