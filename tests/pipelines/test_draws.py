"""How rounds get their tasks, with fakes for the steps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines.rounds import Draws
from pipelines.stages import Scored
from rlft.tasks.curriculum import is_plain


class FakeStages:
    """Notes what is called with what."""

    def __init__(self, curriculum, batches):
        self.config = SimpleNamespace(
            training=SimpleNamespace(curriculum=curriculum, max_num_gen_batches=batches),
        )
        self.draws = not is_plain(self.config.training)
        self.calls = []

    def __getattr__(self, name):
        def call(*given):
            self.calls.append((name, *given))
            return Scored("rollouts", "rewards", "draw") if name.startswith("sample") else f"{name} {given[-1]}"

        return call


def two_rounds(curriculum, batches):
    stages = FakeStages(curriculum, batches)
    draws = Draws(stages, "tasks")
    for number in range(2):
        draws.sample(f"policy {number}", number)
    return stages.calls


def test_uniform_rounds_need_no_draw():
    assert two_rounds("uniform", 1) == [
        ("sample_round", "policy 0", "tasks", 0),
        ("sample_round", "policy 1", "tasks", 1),
    ]


def test_uniform_rounds_with_reserves_need_no_rates():
    assert [call[0] for call in two_rounds("uniform", 2)] == ["draw", "sample_draw"] * 2


@pytest.mark.parametrize("batches", [1, 3])
def test_each_round_is_drawn_by_what_came_of_the_one_before(batches):
    scored = Scored("rollouts", "rewards", "draw")
    assert two_rounds("pass_rate", batches) == [
        ("draw", "tasks", 0, None),
        ("sample_draw", "policy 0", "tasks", "draw None", 0),
        ("note_rates", None, scored, 0),
        ("draw", "tasks", 1, "note_rates 0"),
        ("sample_draw", "policy 1", "tasks", "draw note_rates 0", 1),
        ("note_rates", "note_rates 0", scored, 1),
    ]


def test_stages_that_have_their_attempts_already_draw_nothing():
    stages = FakeStages("pass_rate", 3)
    stages.draws = False
    Draws(stages, "tasks").sample("policy", 4)
    assert stages.calls == [("sample_round", "policy", "tasks", 4)]
