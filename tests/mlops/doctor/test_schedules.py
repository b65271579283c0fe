"""What `rlft doctor` says of the store of schedules."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from mlops.doctor.schedules import check_schedules
from mlops.schedules import store
from tests.mlops.schedules.conftest import MONDAY, Bench


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def said(bench):
    return [(each.state, each.what, each.fix) for each in check_schedules(bench.home)]


def test_nothing_is_said_of_what_is_whole(bench):
    assert said(bench) == []
    bench.apply()
    bench.at(MONDAY)
    assert said(bench) == []


@pytest.mark.parametrize("size", [0, 100, 5000, 13000])
def test_a_store_that_is_cut_off_is_broken(bench, size):
    bench.apply()
    for week in range(100):  # so that it has more than a page of each table
        bench.look(MONDAY + timedelta(days=7 * week))
    file = store.store_file(bench.home)
    assert file.stat().st_size > 13000
    os.truncate(file, size)
    [(state, what, fix)] = said(bench)
    assert (state, what.startswith(f"{file}: the schedules ")) == ("broken", True)
    assert fix.startswith("move this file away and apply the schedules again")
    assert file.stat().st_size == size


def test_rows_that_cannot_be_read_are_named(bench):
    bench.apply()
    bench.apply(name="other")
    bench.look(MONDAY)
    with store.opened(bench.home) as opened:
        opened.execute("UPDATE schedules SET content = '[1]' WHERE name = 'weekly'")
        opened.execute("UPDATE firings SET told = 'x' WHERE schedule = 'other'")
    (state, what, fix), (milder, count, _) = said(bench)
    assert (state, "the schedule weekly, as it was applied: its row is damaged" in what) == ("broken", True)
    assert "rlft schedule delete weekly" in fix
    assert (milder, count) == ("warning", "what came of 1 due times of schedule other is damaged, and is left out")
