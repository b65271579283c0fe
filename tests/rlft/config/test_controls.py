"""Configs of older versions say with `evaluation.sft_control` what `controls` says now."""

from __future__ import annotations

from typing import get_args

import pytest

from rlft.config import ControlName
from rlft.config.file import load_config
from tests.shipped import ROOT

OTHERS = [name for name in get_args(ControlName) if name != "sft"]
DEMO = ROOT / "configs" / "demo.yaml"


@pytest.mark.parametrize(
    ("given", "controls"),
    [
        ([], None),
        (["controls=[]"], []),
        (["controls=[sft]"], ["sft"]),
        (["controls=[few_shot]"], ["few_shot"]),
        (["evaluation.sft_control=true"], None),
        (["evaluation.sft_control=false"], OTHERS),
        (["evaluation.sft_control=false", "controls=[sft]"], []),
    ],
)
def test_an_older_setting_means_a_list(given, controls, caplog):
    assert load_config(DEMO, given).controls == controls
    old = any("sft_control" in each for each in given)
    assert ("evaluation.sft_control is now `controls`" in caplog.text) == old
