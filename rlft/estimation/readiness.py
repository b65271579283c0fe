"""Checks an experiment before anything of it is started: its engine, tasks, environment, loss, model and machine.

Nothing here imports torch or transformers at its top, so that a broken set-up is reported within a second. A check
raises only for what the run itself would refuse later; what cannot be known yet is left to the run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

from rlft.config import Config, EnvironmentConfig, PolicyConfig, RewardConfig, SourceConfig, TrainingConfig
from rlft.config.section import is_import_path
from rlft.engines.kinds import is_installed
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.loading import load_environment
from rlft.environments.contract.marks import marked_steps, marked_weights
from rlft.environments.workers.pool import cores_here
from rlft.errors import ConfigError, DistributedError, EnvironmentSetupError, PolicyError, RlftError
from rlft.estimation.machine import check_device, gpus_here
from rlft.files import expanded, why_no_file
from rlft.rewards.rubric import check_weighed
from rlft.sandbox.bubblewrap import is_shown
from rlft.tasks.reasoning_gym import draw_rows
from rlft.tasks.rows import FieldError, check_template, make_task
from rlft.tasks.sources import BadRow, BadRows, RawRow, describe_source, read_rows
from rlft.training.algorithms import chosen_algorithm

Check = Callable[[], None]
_TEMPLATES = Path(__file__).parent.parent / "harness" / "chat" / "templates"
_LOOK_SECONDS = 5.0  # for the answer of the hub; transformers tries again for minutes
ROWS = 20
"""How many rows are read beyond the number that `tasks.max_bad_rows` allows to be unusable."""


def find_problems(config: Config, folder: Path) -> list[RlftError]:
    """Return all that would keep the experiment from running on this machine; `folder` is where policies are stored.

    The quick checks come first. Those that need libraries which the run imports anyway (torch, datasets, reasoning-gym)
    are run only if the quick ones found nothing. Of files only the first rows are read.
    """
    engine = config.rollout.kind
    quick_tasks, costly_tasks = _checks_of_tasks(config)
    quick: list[Check] = [
        lambda: engine.check_here(config.rollout),
        *quick_tasks,
        lambda: check_unseen(folder, "the home"),
        lambda: check_unseen(Path.cwd(), "the working directory"),
        lambda: check_unseen(Path(__file__), "the clone"),
        lambda: check_environment(config.environment, config.reward),
        lambda: check_files(config.training),
        lambda: check_origin(config.policy),
        lambda: check_chat_template(config.policy),
        lambda: check_device("cuda" if engine.needs_gpu else config.policy.device),
        *(arm.check_here for arm in config.arms()),
    ]
    costly: list[Check] = [
        *costly_tasks,
        lambda: check_machine(config),
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
        for where, source in ((section, tasks), (f"{section}.off_distribution", tasks.off_distribution)):
            if source is not None:
                quick.append(partial(check_unseen, Path(source.path or "."), f"{where}.path"))
                those = quick if source.source in ("jsonl", "csv", "parquet") else costly
                those.append(partial(check_rows, source, where, allowed=tasks.max_bad_rows, seed=tasks.seed))
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


def check_environment(settings: EnvironmentConfig, reward: RewardConfig) -> None:
    """Import and build the environment. Raises EnvironmentSetupError and ConfigError as `load_environment` does.

    Where the parts of its reward are all marked methods, a weight for another part is a ConfigError too: other rewards
    name their parts only when they score. All members of several environments are checked.
    """
    if members := settings.members():
        for name, member in members.items():
            try:
                check_environment(member, reward.of_member(name))
            except RlftError as error:
                error.where = f"environments.{name}: {error.where}"
                raise
        return
    environment = load_environment(settings.name, settings.kwargs)
    if type(environment).compute_reward is BaseEnv.compute_reward:
        parts = [*marked_weights(environment), *marked_steps(environment)]
        check_weighed(reward.weights, parts, "the environment's reward has no part")


def check_unseen(path: Path, where: str) -> None:
    """Raise EnvironmentSetupError for a path that a model's programs could read in the sandbox: it may hold tests."""
    if is_shown(path):
        raise EnvironmentSetupError(
            f"{path.absolute()} lies in a folder of the system or Python that the sandbox shows to a model's programs",
            where=where,
            fix="move it elsewhere",
        )


def check_files(settings: TrainingConfig) -> None:
    """Read the first rows of an algorithm's files, if there are such, and look for the file of a loss.

    Raises TaskError and ConfigError.
    """
    chosen_algorithm(settings).check_files()
    location = settings.loss_type.rpartition(":")[0]
    if location.endswith(".py") and (problem := why_no_file(expanded(location))):
        raise ConfigError(problem, where="training.loss_type", fix=f"check the path {location}")


def check_loss(settings: TrainingConfig) -> None:
    """Import a loss of the user's own and call it on a few tokens.

    Raises ConfigError and EnvironmentSetupError as `chosen_loss` and `try_loss` do.
    """
    if is_import_path(settings.loss_type):
        from rlft.training.chosen_loss import chosen_loss, try_loss  # imports torch

        try_loss(chosen_loss(settings))


def check_machine(config: Config) -> None:
    """Raise DistributedError without Ray, or if trainers are to have GPUs or cores of this machine and it has too few.

    The run's own process shares a GPU with its trainers.
    """
    if config.distributed is None:
        return
    if not is_installed("ray"):
        fix = "make setup-ray, or remove `distributed`"
        raise DistributedError("Ray is not installed", where="distributed.engine", fix=fix)
    if config.distributed.address is not None:
        return
    gpus = len(gpus_here()) if config.policy.device != "cpu" else 0
    there, what = (gpus, "GPUs") if gpus else (cores_here(), "cores")
    if there < config.trainers:
        raise DistributedError(
            f"{config.trainers} trainers need a {what[:-1]} each, and this machine has {there}",
            where="distributed.trainers",
            fix="ask for fewer",
        )


def check_cluster(config: Config, folder: Path) -> None:
    """Raise DistributedError if the run's work cannot be done on the cluster that it is to join.

    `folder` is where policies are stored.
    """
    if config.distributed is None or config.distributed.address is None:
        return
    from rlft.training.distributed.director import find_problem

    device = config.policy.device
    on_gpu = device == "cuda" or (device == "auto" and bool(gpus_here()))
    if problem := find_problem(config.distributed, on_gpu, folder):
        raise problem


def check_origin(settings: PolicyConfig, where: str = "policy.model") -> None:
    """Raise PolicyError for a folder that is not there or holds no model, or a model that is not to be had of the hub.

    The hub is asked once, within seconds, for a model that is not in its cache. The error names the setting `where`.
    """
    if settings.model is None:
        return
    folder = Path(settings.model)
    if folder.is_dir():
        lacks = [name for name in ("config.json", "*.safetensors") if not any(folder.glob(name))]
        if lacks:
            raise PolicyError(
                f"there is no {' and no '.join(lacks)} in the folder {folder}",
                where=where,
                fix="name a folder with config.json, tokenizer and *.safetensors",
            )
    elif settings.model.startswith(("/", ".", "~")) or settings.model.count("/") > 1 or folder.exists():
        raise PolicyError(
            f"there is no folder {settings.model!r} (looked in {Path.cwd()})",
            where=where,
            fix="name a folder with config.json, tokenizer and *.safetensors, or a model of the hub as OWNER/NAME",
        )
    else:
        _check_on_hub(settings, where)


def _check_on_hub(settings: PolicyConfig, where: str) -> None:
    """Raise PolicyError if neither the hub's cache nor the hub has the config of a model."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    name = settings.model or ""
    try:
        hf_hub_download(name, "config.json", revision=settings.revision, etag_timeout=_LOOK_SECONDS)
    except (EntryNotFoundError, HfHubHTTPError, OSError, ValueError) as cause:
        if isinstance(cause, EntryNotFoundError) and not isinstance(cause, LocalEntryNotFoundError):
            return  # as of an adapter: the run looks for its own files
        revision = f" at {settings.revision}" if settings.revision else ""
        raise PolicyError(
            f"the model {name!r}{revision} is not to be had of the hub: {' '.join(str(cause).split())}",
            where=where,
            fix=f"mend that, run `hf download {name}` where there is a network, or name a folder",
        ) from cause


def check_chat_template(settings: PolicyConfig) -> None:
    """Raise PolicyError for a template that is neither a shipped one nor a file."""
    name = settings.chat_template
    shipped = sorted(path.stem for path in _TEMPLATES.glob("*.jinja"))
    if name is not None and name not in shipped and (problem := why_no_file(Path(name))):
        raise PolicyError(
            f"{name!r} is no template that rlft ships, and as a path: {problem}",
            where="policy.chat_template",
            fix=f"name a file, or one of {', '.join(shipped)}",
        )


def check_rows(source: SourceConfig, section: str, *, allowed: int, seed: int) -> None:
    """Raise TaskError for a source that is not there, or whose first rows ingestion would refuse.

    `section` is where the source stands in the config, `allowed` how many rows may be unusable, and `seed` is that of a
    generator.
    """
    for name in ("prompt", "answer"):
        check_template(getattr(source, name), f"{section}.{name}")
    count, bad = allowed + ROWS, BadRows(allowed)
    is_drawn = source.source == "reasoning_gym"
    rows = draw_rows(source, seed=seed, expected=count, most=count) if is_drawn else read_rows(source, count=count)
    for raw in islice(rows, count):
        try:
            if isinstance(raw, RawRow):
                make_task(raw, source, environment="")
            else:
                bad.rows.append(raw)
        except FieldError as error:
            bad.rows.append(BadRow(raw.place, str(error)))
    bad.check(describe_source(source))


def check_demonstrations(path: Path) -> None:
    """Raise TaskError for a file of demonstrations that is not there, or whose first rows are no demonstrations."""
    from rlft.training.demonstration_file import iterate_demonstrations  # imports scipy

    for _ in islice(iterate_demonstrations(path), ROWS):
        pass
