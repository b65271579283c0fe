"""The watch over trainers, without Ray: which processes are theirs, what their errors say, and when none gets on."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rlft.config import DistributedConfig
from rlft.distributed import trainer_actors
from rlft.distributed.demand import Demand
from rlft.distributed.trainer_actor import Place, Pulse
from rlft.distributed.trainer_actors import TrainerActors
from rlft.errors import DamagedError, DistributedError, RlftError

OWN = Place(1, "10.0.0.7", "pid:[1]")


class TaskError(Exception):
    """As Ray's: its text has the traceback, its `cause` is what was raised."""

    def __init__(self, cause: Exception, text: str) -> None:
        super().__init__(text)
        self.cause = cause


class RayActorError(Exception): ...


class ActorUnavailableError(RayActorError): ...


class FakeRay:
    """Trainers whose every call is answered at once by `answers`, a function of the trainer's rank and the method.

    What `late` says of a call has not come yet; what is an exception is raised.
    """

    exceptions = SimpleNamespace(RayActorError=RayActorError, ActorUnavailableError=ActorUnavailableError)

    def __init__(self, answers: Callable[[int, str], Any], late: Callable[[str], bool] = lambda method: False) -> None:
        self._answers, self._late = answers, late
        self.called: list[tuple[int, str, tuple[Any, ...]]] = []

    def remote(self, **_: Any) -> Any:
        return lambda _: SimpleNamespace(remote=lambda rank, *_: _Actor(self, rank))

    def put(self, value: Any) -> Any:
        return value

    def wait(self, calls: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        late = [call for call in calls if self._late(call[1])]
        return [call for call in calls if call not in late], late

    def get(self, call: Any) -> Any:
        if isinstance(call, list):
            return [self.get(each) for each in call]
        answer = self._answers(call[0], call[1])
        if isinstance(answer, Exception):
            raise answer
        return answer


class _Actor:
    def __init__(self, ray: FakeRay, rank: int) -> None:
        self._ray, self._rank = ray, rank

    def __getattr__(self, method: str) -> Any:
        def remote(*given: Any) -> tuple[int, str]:
            self._ray.called.append((self._rank, method, given))
            return self._rank, method

        return SimpleNamespace(remote=remote, options=lambda **_: SimpleNamespace(remote=remote))


def start(ray: FakeRay, monkeypatch: Any, limit: float = 60.0) -> tuple[TrainerActors, list[list[int]]]:
    monkeypatch.setattr(Place, "here", lambda: OWN)
    settings = DistributedConfig(engine="ray", trainers=2, timeout_seconds=limit, address="10.0.0.7:6379")
    cluster: Any = SimpleNamespace(ray=ray, cores=1, meeting=lambda: "meeting", is_up=lambda: True)
    pids: list[list[int]] = []
    return TrainerActors(cluster, Demand(settings, False, 2), pids=pids.append, tick=lambda: None), pids


JOB: Any = SimpleNamespace(target=None)


@pytest.mark.parametrize(
    ("second", "known", "together"),
    [
        (Place(9, "10.0.0.7", "pid:[1]"), [8, 9], True),
        (Place(9, "10.0.0.8", "pid:[1]"), [8, 0], False),
        (Place(9, "10.0.0.7", "pid:[2]"), [8, 0], True),
    ],
)
def test_only_processes_of_this_machine_are_known_by_number_and_may_be_killed(monkeypatch, second, known, together):
    places = [Place(8, "10.0.0.7", "pid:[1]"), second]
    ray = FakeRay(lambda rank, method: {"place": places[rank], "train": "report"}.get(method))
    trainers, pids = start(ray, monkeypatch)
    assert trainers.train(JOB) == "report"
    assert pids == [known]
    assert [given[-1] for _, method, given in ray.called if method == "join"] == [together] * 2
    assert trainers.close() == [pid for pid in known if pid]
    assert trainers.close() == []


def failing(*errors: Exception) -> FakeRay:
    return FakeRay(lambda rank, method: OWN if method == "place" else errors[rank] if method == "train" else None)


def test_an_error_of_ours_is_a_sentence_as_it_is_and_comes_before_one_about_a_lost_peer(monkeypatch):
    ours, peer = DamagedError("it is damaged", where="file"), RuntimeError("connection closed by peer")
    with pytest.raises(DamagedError) as caught:
        start(failing(TaskError(peer, "traceback"), TaskError(ours, "traceback")), monkeypatch)[0].train(JOB)
    assert not hasattr(caught.value, "__notes__")
    assert isinstance(ours, RlftError)


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(trainer_actors, "time", made)
    return made


def test_trainers_get_on_while_any_of_them_does_anything(clock):
    watch = trainer_actors._Watch(60.0)
    assert watch.interval == 1.0
    assert trainer_actors._Watch(2.0).interval == 0.5  # a quarter of a short limit
    for seconds, beats, moves in (
        (0, (0, 0), True),
        (50, (0, 1), True),  # the second does something at 50
        (60, (0, 1), True),  # 110: exactly 60 s after it
        (0.1, (0, 1), False),
        (0, (3, 1), True),  # late, and yet
        (59, (3, 1), True),
        (2, (3, 1), False),
    ):
        clock.now += seconds
        assert watch.moves([Pulse(each) for each in beats]) == moves, clock.now


def test_trainers_of_which_none_gets_on_are_hanging(monkeypatch, clock):
    def answer(rank: int, method: str) -> Any:
        clock.now += 5.0 * (method == "pulse")
        return {"place": OWN, "pulse": Pulse(4)}.get(method)

    trainers, _ = start(FakeRay(answer, late=lambda method: method == "train"), monkeypatch, limit=30.0)
    with pytest.raises(DistributedError, match="none of the 2 trainers has got on for 30 s") as caught:
        trainers.train(JOB)
    assert "raise distributed.timeout_seconds" in caught.value.fix
    assert 1030 < clock.now <= 1060


def test_a_trainer_whose_pulse_fails_and_whose_call_never_comes_back_is_found(monkeypatch, clock):
    def answer(rank: int, method: str) -> Any:
        clock.now += 2.5 * (method == "pulse")
        if method == "pulse" and rank == 1:
            return FakeRay.exceptions.RayActorError("the actor is unavailable")
        return {"place": OWN, "pulse": Pulse(4)}.get(method)

    trainers, _ = start(FakeRay(answer, late=lambda method: method == "train"), monkeypatch, limit=30.0)
    with pytest.raises(DistributedError, match=r"trainer 2 of 2 .*has not said for 30 s how far it is") as caught:
        trainers.train(JOB)
    assert "`rlft resume`" in caught.value.fix
    assert 1030 < clock.now <= 1060


def test_trainers_that_wait_for_cores_are_counted_and_given_up(monkeypatch, clock):
    waits, told = 0, []

    def late(method: str) -> bool:
        nonlocal waits
        waits += method == "place"
        clock.now += 10.0
        return method == "place" and waits != 1  # the first of the first two has started

    trainers, _ = start(FakeRay(lambda rank, method: {"place": OWN}.get(method), late), monkeypatch, limit=30.0)
    with pytest.raises(DistributedError, match="1 of 2 trainers have started within 300 s") as caught:
        trainers.train(JOB, lambda done, total, what, **_: told.append((done, total, what)))
    assert "another run has the cores or GPUs" in caught.value.fix
    assert set(told) == {(1, 2, "trainers started")}


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (RayActorError, r"trainer 2 of 2 .* has died\n"),
        (ActorUnavailableError, "trainer 2 of 2 .* has died, or its machine cannot be reached"),
    ],
)
def test_a_trainer_that_has_died_is_told_from_one_that_is_out_of_reach(monkeypatch, clock, failure, said):
    def answer(rank: int, method: str) -> Any:
        return failure() if method == "train" and rank == 1 else {"place": OWN}.get(method)

    trainers, _ = start(FakeRay(answer), monkeypatch, limit=30.0)
    with pytest.raises(DistributedError, match=said):
        trainers.train(JOB)
