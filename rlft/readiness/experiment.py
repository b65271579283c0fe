"""Runs all checks of an experiment and collects what they raise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from rlft.config import Config, PolicyConfig
from rlft.errors import RlftError
from rlft.readiness.device import check_device, check_device_with_torch
from rlft.readiness.distributed import check_cluster, check_cores, check_gpus, check_ray
from rlft.readiness.engine import check_engine
from rlft.readiness.environment import check_environment, check_unseen
from rlft.readiness.loss import check_files, check_loss
from rlft.readiness.policy import check_chat_template, check_memory, check_origin, check_room
from rlft.readiness.tasks import check_demonstrations, check_drawn_rows, check_first_rows

Check = Callable[[], None]


def find_problems(config: Config, folder: Path) -> list[RlftError]:
    """Return all that would keep the experiment from running on this machine; `folder` is where policies are stored.

    The quick checks come first. Those that need libraries which the run imports anyway (torch, datasets, reasoning-gym)
    are run only if the quick ones found nothing. Of files only the first rows are read.
    """
    quick_tasks, costly_tasks = _checks_of_tasks(config)
    quick: list[Check] = [
        lambda: check_engine(config.rollout),
        *quick_tasks,
        lambda: check_unseen(folder, "the home"),
        lambda: check_unseen(Path.cwd(), "the working directory"),
        lambda: check_unseen(Path(__file__), "the clone"),
        lambda: check_environment(config.environment, config.reward),
        lambda: check_files(config.training),
        lambda: check_ray(config.distributed),
        lambda: check_origin(config.policy),
        lambda: check_chat_template(config.policy),
        lambda: check_device(config.policy.device),
        lambda: check_memory(config.policy),
        lambda: check_room(config.policy, config.training.rounds, folder),
    ]
    costly: list[Check] = [
        *costly_tasks,
        lambda: check_device_with_torch(config.policy.device),
        lambda: check_gpus(config),
        lambda: check_cores(config),
        lambda: check_cluster(config, folder),
        lambda: check_loss(config.training),
    ]
    if (rival := config.other_model) is not None and rival.endpoint is None:
        quick.append(lambda: check_origin(PolicyConfig(model=rival.model, revision=rival.revision), "controls"))
    if config.warm_start is not None and (path := config.warm_start.path) is not None:
        quick.append(lambda: check_demonstrations(Path(path)))
    return raised_by(quick) or raised_by(costly)


def _checks_of_tasks(config: Config) -> tuple[list[Check], list[Check]]:
    """Return the quick and the costly checks of all sources of tasks."""
    quick, costly = list[Check](), list[Check]()
    for section, tasks in config.tasks.sections().items():
        named = {"environment": config.environment.name, "allowed": tasks.max_bad_rows}
        for where, source in ((section, tasks), (f"{section}.off_distribution", tasks.off_distribution)):
            if source is not None:
                quick.append(partial(check_unseen, Path(source.path or "."), f"{where}.path"))
                quick.append(partial(check_first_rows, source, where, **named))
                costly.append(partial(check_drawn_rows, source, where, seed=tasks.seed, **named))
    return quick, costly


def raised_by(checks: list[Check]) -> list[RlftError]:
    """Run the checks and return the errors that they raise, each text once."""
    found: dict[str, RlftError] = {}
    for check in checks:
        try:
            check()
        except RlftError as error:
            found.setdefault(str(error), error)
    return list(found.values())
