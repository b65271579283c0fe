"""A pod that Kubernetes would not take, or that is other than its file says, is refused with the setting."""

from __future__ import annotations

import sys

import pytest
from zenml.client import Client

from mlops.stacks.file import StackFile
from mlops.stacks.pods import check_pod_settings
from rlft.errors import StackError
from tests.mlops.stacks.test_manifests import USER, stack  # noqa: F401


@pytest.fixture(autouse=True)
def _user(monkeypatch):
    monkeypatch.setattr(Client, "active_user", USER)


def changed(stack: StackFile, setting: str, value: object) -> StackFile:  # noqa: F811
    """A copy of the stack with a setting of its pod: added to a list, put into a section, or new."""
    copy = stack.model_copy(deep=True)
    *sections, name = setting.split(".")
    section = copy.orchestrator.config["orchestrator_pod_settings"]
    for each in sections:
        section = section[each]
    if isinstance(section.get(name), list):
        section[name].append(value)
    else:
        section[name] = value
    return copy


def test_the_shipped_stack_is_taken(stack):  # noqa: F811
    check_pod_settings(stack)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("node_selector", {"a": "b"}, "a pod has no setting node_selector"),
        ("additional_pod_spec_args.priority_class", "high", "a pod has no setting priority_class"),
        ("additional_pod_spec_args.security_context", {"fsgroup": 1}, "'fsgroup' was unexpected"),
        ("resources.request", {"cpu": "1"}, "'request' was unexpected"),
        ("resources.requests.memoy", "3Gi", "requests: Kubernetes has no resource memoy"),
        ("resources.limits.gpu", "1", "limits: Kubernetes has no resource gpu"),
        ("resources.limits.memory", "64GB", "limits: '64GB' is no amount of memory"),
        ("volumes", {"name": "x", "emptyDr": {}}, "'emptyDr' was unexpected"),
        ("volumes", {"name": "x", "emptyDir": {"sizeLimt": "1Gi"}}, "volumes.2.emptyDir"),
        ("volume_mounts", {"name": "cach", "mountPath": "/x"}, "no volume is named 'cach', which is mounted at /x"),
        ("volume_mounts", {"name": "cache", "mounthPath": "/x"}, "'mountPath' is a required property"),
        ("tolerations", {"kee": "x"}, "'kee' was unexpected"),
        ("env", {"name": "N", "value": 3}, "env.2.value"),
        ("env_from", {"secretRf": {"name": "x"}}, "'secretRf' was unexpected"),
        ("affinity", {"nodeAffinty": {}}, "'nodeAffinty' was unexpected"),
    ],
)
def test_what_is_misspelt_is_refused(stack, setting, value, said):  # noqa: F811
    wrong = changed(stack, setting, value)
    with pytest.raises(StackError) as refused:
        check_pod_settings(wrong)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("resources.limits.hugepages-2Mi", "100Mi"),
        ("resources.requests.cpu", "500m"),
        ("affinity", {"nodeAffinity": {}}),
        ("volumes", {"name": "x", "configMap": {"name": "y"}}),
        ("additional_pod_spec_args.priority_class_name", "high"),
    ],
)
def test_what_is_right_is_taken(stack, setting, value):  # noqa: F811
    check_pod_settings(changed(stack, setting, value))


def test_the_settings_of_the_pods_of_single_steps_are_looked_at_too(stack):  # noqa: F811
    wrong = stack.model_copy(deep=True)
    wrong.orchestrator.config["pod_settings"] = {"node_selector": {}}
    with pytest.raises(StackError, match=r"orchestrator\.config\.pod_settings: a pod has no setting node_selector"):
        check_pod_settings(wrong)


def test_without_the_schemas_it_says_what_installs_them(stack, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "kubernetes_validate", None)
    with pytest.raises(StackError, match="make setup-kubernetes"):
        check_pod_settings(stack)
