"""Losses of a user's own: by file and by module, what is wrong with them in a sentence, and a step that they train."""

import re
import sys
from pathlib import Path

import pytest
import torch
import yaml

from rlft.config import TrainingConfig
from rlft.errors import RlftError
from rlft.training.chosen_loss import chosen_loss, loss_fingerprint, try_loss
from rlft.training.losses import LOSSES
from tests.factories import make_training
from tests.rlft.models.small_models import make_small_policy
from tests.rlft.training.test_update import gradients, make_groups

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "training.md"
OWN = """
from typing import ClassVar

from pydantic import Field

from rlft.training.losses import Divisor, Loss


class Scaled(Loss):
    '''The ratio, never clipped.'''

    divisor: ClassVar[Divisor] = "tokens"
    factor: float = Field(default=1.0, gt=0)

    def objective(self, ratio, advantages, logprobs):
        return self.factor * ratio * advantages
"""


@pytest.fixture
def written(tmp_path):
    """A function that writes a file with edits, and gives the settings that name its class."""

    def write(*edits, of="Scaled", **settings):
        text = OWN
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "my_loss.py").write_text(text)
        return {"loss_type": f"{tmp_path / 'my_loss.py'}:{of}"} | settings

    return write


def refusal(settings):
    with pytest.raises(RlftError) as caught:
        try_loss(chosen_loss(TrainingConfig(**settings)))
    assert caught.value.where.startswith("training.loss_")
    return f"{caught.value.where}: {caught.value.what}; {caught.value.fix}"


def test_a_step_is_trained_with_it(written):
    # fresh rollouts have ratios of 1, where dapo clips nothing: the same gradient, and twice it with a factor of 2
    policy = make_small_policy("qwen3", sharpness=2.0)
    groups = make_groups(policy)
    shipped = gradients(policy, groups)
    own = gradients(policy, groups, **written())
    twice = gradients(policy, groups, **written(loss_kwargs={"factor": 2}))
    assert max(gradient.abs().max() for gradient in shipped.values()) > 1e-2
    for name, gradient in shipped.items():
        assert torch.equal(own[name], gradient)
        torch.testing.assert_close(twice[name], 2 * gradient, rtol=0, atol=1e-6)


def test_one_that_derives_from_a_shipped_loss_has_its_settings(written):
    edits = [("from rlft.training.losses import Divisor, Loss", "from rlft.training.losses.clipped import Dapo")]
    settings = written(*edits, ("class Scaled(Loss)", "class Scaled(Dapo)"), ("Divisor] =", "str] ="))
    loss = chosen_loss(TrainingConfig(**settings, loss_kwargs={"epsilon": 0.1, "factor": 3.0}))
    assert loss.bounds() == (0.9, 1.1)
    said = refusal(settings | {"loss_kwargs": {"epsilon_high": 1.5}})
    assert "training.loss_kwargs: epsilon_high=1.5 is added to 1, so that hardly" in said


def test_an_import_path_names_it_too(written, tmp_path, monkeypatch):
    written()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    settings = make_training(loss_type="my_loss:Scaled")
    loss, before = chosen_loss(settings), loss_fingerprint(settings)
    assert (type(loss).__module__, type(loss).__name__) == ("my_loss", "Scaled")
    written(("self.factor *", "2 * self.factor *"))
    assert (type(chosen_loss(settings)), loss_fingerprint(settings)) == (type(loss), before)  # is imported once
    monkeypatch.delitem(sys.modules, "my_loss")


def test_the_example_of_the_guide_can_be_trained_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, settings = re.search(
        r"```python\n(# my_loss.py.*?)```\n\n```yaml\n(.*?)```", GUIDE.read_text(), re.S
    ).groups()
    (tmp_path / "my_loss.py").write_text(code)
    loss = chosen_loss(TrainingConfig(**yaml.safe_load(settings)["training"]))
    try_loss(loss)
    one = torch.ones(1, 1)
    assert loss.objective(4 * one, 3 * one, one).item() == 12  # 4 ** 0.5 / 0.5 * 3


@pytest.mark.parametrize("name", LOSSES)
def test_a_shipped_one_is_chosen_by_name_and_can_be_tried(name):
    loss = chosen_loss(make_training(loss_type=name, **LOSSES[name].example))
    assert type(loss) is LOSSES[name]
    try_loss(loss)


@pytest.mark.parametrize(
    ("edits", "options", "said"),
    [
        ([], {"of": "Scale"}, "there is no loss 'Scale'"),
        ([], {"of": "Field"}, "there is no loss 'Field'"),
        ([("def objective", "def objektive")], {}, "Scaled has no objective"),
        ([('"tokens"', '"token"')], {}, "Scaled has no divisor"),
        ([('= "tokens"', "")], {}, "Scaled has no divisor"),
        ([("return", "retrun")], {}, "my_loss.py:16"),
        ([("from pydantic", "from pydantick")], {}, "install pydantick"),
        ([], {"loss_kwargs": {"faktor": 2.0}}, "training.loss_kwargs.faktor: unknown setting"),
        ([], {"loss_kwargs": {"factor": 0.0}}, "training.loss_kwargs.factor: Input should be greater than 0"),
        ([("* advantages", "* advantage")], {}, "NameError: name 'advantage' is not defined, at "),
        ([("ratio *", "ratio.sum() *"), ("* advantages", "* 1")], {}, "it returned []"),
        ([("ratio *", "ratio.detach() *")], {}, "does not require grad"),
        ([("* advantages", "* advantages.log()")], {}, "no finite numbers"),
    ],
)
def test_what_is_wrong_is_said_with_the_setting(written, edits, options, said):
    assert said in refusal(written(*edits, **options))


def test_a_file_that_is_not_there():
    assert "there is no file" in refusal({"loss_type": "./nowhere.py:Mine"})


def test_only_an_edit_of_its_code_changes_the_fingerprint(written):
    def fingerprint(*edits):
        return loss_fingerprint(make_training(**written(*edits)))

    before = fingerprint()
    assert fingerprint(("return", "# a comment\n        return")) == before
    assert fingerprint(("self.factor *", "2 * self.factor *")) != before
    assert loss_fingerprint(make_training()) == loss_fingerprint(make_training(loss_type="grpo"))  # of one file
    assert loss_fingerprint(make_training(loss_type="cispo", epsilon_high=5.0)) != loss_fingerprint(make_training())


def test_a_setting_may_be_a_pair(written):
    edits = ("factor: float = Field(default=1.0, gt=0)", "factor: tuple[float, float] = (1.0, 2.0)")
    settings = written(edits, ("self.factor *", "self.factor[1] *"), loss_kwargs={"factor": [0.5, 3]})
    assert chosen_loss(TrainingConfig(**settings)).factor == (0.5, 3.0)
