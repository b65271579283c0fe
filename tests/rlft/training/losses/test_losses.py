"""All shipped losses: what the config and the pages make of their declarations."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import Field

from rlft.config import TrainingConfig
from rlft.config import training as config
from rlft.training.losses import LOSSES, Loss, sapo
from rlft.types.declared import shipped

ROOT = Path(__file__).resolve().parents[4]
by_name = pytest.mark.parametrize("name", LOSSES)


@by_name
def test_it_says_what_it_is_and_where_it_is_from(name):
    loss = LOSSES[name]
    assert (loss.__doc__ or "").splitlines()[0].endswith(".")
    assert loss.paper
    assert all(field.description for field in loss.model_fields.values())


@by_name
def test_the_guide_has_a_row_for_it(name):
    page = (ROOT / "docs/guide/training.md").read_text()
    found = re.search(rf"^\|[^|]+\| `loss_type: {name}`", page, re.MULTILINE)
    assert found, f"docs/guide/training.md has no row whose second cell begins with `loss_type: {name}`"


def test_nothing_of_it_needs_torch():
    program = "import sys, rlft.training.losses; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_settings_reach_the_loss_that_has_them():
    settings = TrainingConfig(loss_type="dr_grpo", epsilon=0.1, epsilon_high=0.3, delta=4.0)
    assert settings.shipped_loss() == LOSSES["dr_grpo"](epsilon=0.1, epsilon_high=0.3, delta=4.0)
    assert TrainingConfig(loss_type="my_loss.py:Mine").shipped_loss() is None


class Unbounded(Loss):
    """One whose settings have no bounds."""

    flag: bool = False
    shift: float = Field(default=0.5, description="Is added.")


def test_a_setting_without_bounds_is_one_of_the_config():
    flag, shift = ({"unbounded": Unbounded.model_fields[name]} for name in ("flag", "shift"))
    assert config._merged(flag)[0] is bool
    kind, field = config._merged(shift)
    assert (kind, field.default, field.description) == (float, 0.5, "unbounded: Is added.")


def test_two_losses_of_one_name_are_refused(monkeypatch):
    again = type("Again", (sapo.Sapo,), {"__module__": sapo.__name__})
    monkeypatch.setattr(sapo, "Again", again, raising=False)
    with pytest.raises(TypeError, match="two classes are called 'sapo'"):
        shipped("rlft.training.losses", Loss)
