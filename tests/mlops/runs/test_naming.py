"""The name of a run that was given none."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from mlops.runs import labels as naming
from mlops.runs.labels import default_name

DAY = datetime(2026, 11, 26, 3, 15)


@pytest.fixture(autouse=True)
def day(monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return DAY

    monkeypatch.setattr(naming, "datetime", Clock)


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "mirror-2026-11-26"),
        (["seed=1"], "mirror-seed=1-2026-11-26"),
        (["environment.kwargs.api_key=hunter22"], "mirror-2026-11-26"),
        (  # 8 + 1 + 13 + 1 + 17 + 1 + 18 = 59 characters
            ["a.steps=40", "a.batch_size=16", "a.tasks_per_round=8", "a.learning_rate=1e-3", "seed=1"],
            "mirror-steps=40,batch_size=16,tasks_per_round=8,learning_rate=1e-3-2026-11-26",
        ),
    ],
)
def test_it_is_the_experiment_what_differs_and_the_day(overrides, name):
    assert re.fullmatch(re.escape(name) + "-[0-9a-f]{4}", default_name("mirror", overrides))
