"""The variables that the pods of a stack will have, beside those that a run reads."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rlft.errors import StackError

if TYPE_CHECKING:
    from zenml.stack import Stack

logger = logging.getLogger(__name__)
_SECONDS = 10.0  # that the cluster has to answer
_KINDS = {"secretRef": "secret", "configMapRef": "config_map"}


def lacking_variables(needed: Iterable[tuple[str, str]], stack: Stack) -> list[StackError]:
    """Return an error that lists variables, given as (setting, name), which the pods will not have, if there are any.

    Pods take some from secrets and config maps of the cluster. What one of them holds that the cluster does not show is
    not known: then this only warns.
    """
    if not (missing := list(dict.fromkeys(needed))):
        return []
    pod = getattr(getattr(stack.orchestrator, "config", None), "orchestrator_pod_settings", None)
    there = _of_zenml(stack) | {each["name"] for each in (pod.env if pod else ())}
    missing = [(setting, name) for setting, name in missing if name not in there]
    if missing and pod and pod.env_from:
        shown = _of_cluster(stack.orchestrator, pod.env_from)
        if shown is None:
            _warn(missing)
            return []
        missing = [(setting, name) for setting, name in missing if name not in shown]
    if not missing:
        return []
    return [
        StackError(
            "the pods will not have these variables:\n  "
            + "\n  ".join(f"{setting} needs the variable {name}" for setting, name in missing),
            where="--stack",
            fix="put them into the secret that the stack's file names (env_from), or let the stack set them "
            "(docs/guide/kubernetes.md)",
        )
    ]


def _of_zenml(stack: Stack) -> set[str]:
    """Return the names of what ZenML sets for a run: variables and secrets of the stack and of its components."""
    from zenml.utils.env_utils import resolve_secrets

    parts: list[Any] = [stack, *stack.all_components]
    secrets = [secret for part in parts for secret in part.secrets]
    return {name for part in parts for name in part.environment} | set(resolve_secrets(secrets))


def _of_cluster(orchestrator: Any, sources: Iterable[Mapping[str, Any]]) -> set[str] | None:
    """Return the names in the secrets and config maps that pods take all of; `None` if the cluster does not say."""
    from kubernetes.client import ApiException, CoreV1Api

    found = set[str]()
    try:
        api = CoreV1Api(orchestrator.get_kube_client())
        for source in sources:
            for reference, kind in _KINDS.items():
                if (named := source.get(reference)) is None:
                    continue
                read = getattr(api, f"read_namespaced_{kind}")
                try:
                    held = read(named["name"], orchestrator.config.kubernetes_namespace, _request_timeout=_SECONDS)
                except ApiException as cause:
                    if cause.status != 404:
                        raise
                else:
                    found |= {f"{source.get('prefix') or ''}{name}" for name in held.data or {}}
    except Exception as cause:  # whatever a cluster that is away, or that does not show its secrets, throws
        logger.debug("the cluster does not show what it has: %s", cause)
        return None
    return found


def _warn(missing: Iterable[tuple[str, str]]) -> None:
    names = ", ".join(f"{name} ({setting})" for setting, name in missing)
    logger.warning("whether the pods will have %s is not known: the cluster does not show what its secrets hold", names)
