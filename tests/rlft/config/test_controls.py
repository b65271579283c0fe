"""Configs of older versions say with `evaluation.sft_control` what `controls` says now."""

from __future__ import annotations

import pytest

from rlft.config.file import load_config
from tests.shipped import ROOT

DEMO = ROOT / "configs" / "demo.yaml"


@pytest.mark.parametrize(
    ("given", "controls"),
    [
        ([], None),
        (["controls=[]"], []),
        (["controls=[sft]"], ["sft"]),
        (["evaluation.sft_control=true"], None),
        (["evaluation.sft_control=false"], ["rejection_sampling"]),
        (["evaluation.sft_control=false", "controls=[sft]"], []),
    ],
)
def test_an_older_setting_means_a_list(given, controls, caplog):
    assert load_config(DEMO, given).controls == controls
    old = any("sft_control" in each for each in given)
    assert ("evaluation.sft_control is now `controls`" in caplog.text) == old
