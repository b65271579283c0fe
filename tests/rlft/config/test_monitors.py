"""What monitors do, as a config says it."""

import pytest
from pydantic import ValidationError

from rlft.config import MonitorsConfig
from rlft.config.file import load_config
from tests.loophole_rows import FOLDER, files
from tests.shipped import ROOT

LOOPHOLE = ROOT / "configs" / "loophole.yaml"


def test_off_needs_no_quotes():
    config = load_config(LOOPHOLE, ["monitors.overoptimization=off", "monitors.repetition=stop"])
    assert config.monitors.overoptimization == "off"
    assert config.monitors.actions()["repetition"] == "stop"


@pytest.mark.parametrize("given", ["no", True, "halt"])
def test_other_words_are_refused(given):
    with pytest.raises(ValidationError):
        MonitorsConfig(overoptimization=given)


def test_nothing_stops_a_run_by_what_a_loophole_solves_too():
    assert MonitorsConfig().actions()["overoptimization"] == "warn"
    assert MonitorsConfig(overoptimization="off").actions()["overoptimization"] == "off"
    assert MonitorsConfig(honest="right").actions()["overoptimization"] == "stop"


def test_the_best_round_is_chosen_by_what_counts():
    assert load_config(LOOPHOLE).chosen_by == "rewards/right"
    assert load_config(LOOPHOLE, ["monitors.honest=null"]).chosen_by == "auto"


def test_only_one_monitor_stops_a_run_unless_the_config_says_so():
    assert [name for name, action in MonitorsConfig(honest="x").actions().items() if action == "stop"] == [
        "overoptimization"
    ]


def test_the_shipped_rows_are_those_that_are_drawn():
    assert {name: (FOLDER / name).read_text() for name in files()} == files()
