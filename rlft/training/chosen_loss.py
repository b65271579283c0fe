"""The loss that `training.loss_type` names: a shipped one, or a class of the user's by its import path.

`try_loss` tries it on a few tokens, so that one that cannot work is found before anything is sampled.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from functools import cache
from typing import Any, get_args

import torch
from pydantic import ValidationError

from rlft.config import TrainingConfig
from rlft.config.training import LossConfig
from rlft.environments.contract.faults import described
from rlft.environments.contract.loading import Name, import_named
from rlft.environments.fingerprints import code_fingerprint, module_code
from rlft.errors import ConfigError
from rlft.files import file_hash
from rlft.training.algorithms import chosen_algorithm
from rlft.training.losses import Divisor, Loss

_TYPE, _KWARGS = "training.loss_type", "training.loss_kwargs"
_SEE = "see rlft/training/losses/__init__.py, and a shipped loss beside it"


def chosen_loss(settings: LossConfig) -> Loss:
    """Return the loss with its settings. A file of the user's is loaded anew when its text has changed.

    Raises EnvironmentSetupError if the class cannot be imported, and ConfigError if it is no loss or does not have the
    settings in `loss_kwargs`.
    """
    if (shipped := settings.shipped_loss()) is not None:
        return shipped
    kind = _find_class(Name.read(settings.loss_type, _TYPE, "Class"))
    try:
        # As JSON, whose lists are also tuples: strict checking of Python's values would take no list for one.
        return kind.model_validate_json(json.dumps(settings.loss_kwargs))
    except ValidationError as error:
        wrong = error.errors()[0]
        what = wrong["msg"].removeprefix("Value error, ")
        raise ConfigError(
            "unknown setting" if wrong["type"] == "extra_forbidden" else what,
            where=".".join([_KWARGS, *map(str, wrong["loc"])]),
            fix=f"{kind.__name__} has {_settings_of(kind)}",
        ) from None


def loss_fingerprint(settings: TrainingConfig) -> str:
    """Return the identity (sha256, hexadecimal) of the code of algorithm and loss, all that it imports, and its files.

    It is part of the cache key of training, so that rounds are trained again after an edit of their loss.

    Raises as `chosen_loss` does, and EnvironmentSetupError for a class without a source file.
    """
    algorithm = chosen_algorithm(settings)
    loss = None if algorithm.loss_types else type(chosen_loss(settings))
    code = _code_of(type(algorithm).__module__, loss)
    paths = filter(None, (getattr(settings, name) for name in algorithm.paths))
    return hashlib.sha256(" ".join([code, *map(file_hash, paths)]).encode()).hexdigest()


@cache  # a class keeps the code that it was imported with; an edited file is imported as another class
def _code_of(algorithm: str, loss: type[Loss] | None) -> str:
    module = algorithm if loss is None else loss.__module__
    if module.partition(".")[0] == "rlft":
        return code_fingerprint(algorithm, module)
    return hashlib.sha256((code_fingerprint(algorithm) + module_code(sys.modules[module], _TYPE)).encode()).hexdigest()


def _find_class(named: Name) -> type[Loss]:
    """Return the class of this import path. Raises ConfigError unless it is a loss with an objective and a divisor."""
    module = import_named(named)
    found: Any = getattr(module, named.attribute, None)
    what = None
    if not (isinstance(found, type) and issubclass(found, Loss)):
        what = f"there is no loss {named.attribute!r}: derive it from rlft.training.losses.Loss"
    elif inspect.isabstract(found):
        what = f"{named.attribute} has no objective(self, ratio, advantages, logprobs)"
    elif getattr(found, "divisor", None) not in get_args(Divisor):
        what = f"{named.attribute} has no divisor: ClassVar[Divisor], one of {', '.join(get_args(Divisor))}"
    if what:
        raise ConfigError(what, where=named.where, fix=_SEE)
    return found


def _settings_of(kind: type[Loss]) -> str:
    return "the settings " + ", ".join(kind.model_fields) if kind.model_fields else "no settings"


def try_loss(loss: Loss) -> None:
    """Call `loss` on a few tokens; raise ConfigError unless it gives one finite number for each, with a gradient."""
    logprobs = torch.tensor([[-0.5, -1.0, -2.0], [-0.5, -1.0, -2.0]], requires_grad=True)
    ratio = (logprobs - logprobs.detach() + torch.tensor([-0.5, 0.0, 0.5])).exp()
    try:
        objective = loss.objective(ratio, torch.tensor([[1.0], [-1.0]]), logprobs)
        (gradient,) = torch.autograd.grad(objective.sum(), logprobs)
        if objective.shape != logprobs.shape or not (objective.isfinite().all() and gradient.isfinite().all()):
            raise ValueError(
                f"it returned {list(objective.shape)} of [rollouts, tokens] = [2, 3], or no finite numbers"
            )
    except Exception as error:
        what = f"objective of {type(loss).__name__} failed on a few tokens: {described(error)}"
        raise ConfigError(what, where=_TYPE, fix=_SEE) from error
