"""How the machine is used while a run goes on."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from mlops.tracking.system import SystemMetrics


def logged(samples: SystemMetrics) -> list[tuple[int, float, dict[str, float]]]:
    found = []
    tracker: Any = SimpleNamespace(log_metrics=lambda values, step, when: found.append((step, when, values)))
    samples.log(tracker)
    return found


@pytest.mark.parametrize(("attempt", "first"), [(1, 0), (2, 1_000_000)])
def test_each_sample_has_a_step_and_its_own_time_and_is_written_once(attempt, first):
    samples, began, found = SystemMetrics(attempt, every=0.02), time.time(), []
    with samples.measuring():
        while len(found) < 3:
            assert time.time() < began + 60
            time.sleep(0.02)
            found += logged(samples)
    found += logged(samples)
    assert [step for step, _, _ in found] == list(range(first, first + len(found)))
    assert all(began <= when <= time.time() for _, when, _ in found)
    assert all(0 <= values["system/cpu_utilization_percentage"] <= 100 for _, _, values in found)
    assert all(values["system/system_memory_usage_megabytes"] > 0 for _, _, values in found)
    assert logged(samples) == []


def test_nothing_is_measured_after_the_end():
    samples = SystemMetrics(1, every=0.01)
    with samples.measuring():
        pass
    logged(samples)
    time.sleep(0.05)
    assert logged(samples) == []
