"""What a stack file must not hold, as ZenML's registry shows it to everybody."""

from __future__ import annotations

from pathlib import Path

import pytest
from zenml.client import Client
from zenml.enums import StackComponentType

from mlops.stacks.file import check_settings, read_stack_file, validate_components
from mlops.tracking.address import NO_AUTHENTICATION
from rlft.errors import StackError
from tests.e2e.conftest import ROOT

LOCAL = (ROOT / "configs/stacks/local.yaml").read_text()
PLAIN = "sqlite:///${HOME}/.rlft-mlflow.db"


@pytest.fixture
def write(tmp_path):
    """Writes a stack file over this machine, with a tracker of these settings."""

    def made(config: str, more: str = "") -> Path:
        file = tmp_path / "stack.yaml"
        file.write_text(LOCAL.replace(f'{{tracking_uri: "{PLAIN}"}}', config) + more)
        return file

    return made


def test_a_variable_that_holds_a_secret_is_refused_by_name_or_value(write, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_" + "Wq6" * 8)
    monkeypatch.setenv("HARMLESS", "hf_" + "Wq6" * 12)
    monkeypatch.setenv("SERVER", "http://anna:Wq6-Wq6-Wq6@mlflow.example")
    for name in ("HF_TOKEN", "HARMLESS", "SERVER"):
        with pytest.raises(StackError, match=rf"\$\{{{name}\}}: what looks like a secret") as refused:
            read_stack_file(write(f'{{tracking_uri: "http://mlflow.example/${{{name}}}"}}'))
        assert "Wq6" not in str(refused.value)
        assert "zenml secret create" in refused.value.fix


def test_the_variables_that_a_file_reads_are_named(write, caplog, monkeypatch):
    monkeypatch.setenv("RLFT_KUBERNETES_CONTEXT", "arn:aws:eks:eu-central-1:123456789012:cluster/gpus")
    caplog.set_level("INFO")
    file = write(f'{{tracking_uri: "{PLAIN}", note: "${{RLFT_KUBERNETES_CONTEXT}}"}}', "# ${COMMENT}\n")
    assert read_stack_file(file).experiment_tracker.config["note"].startswith("arn:aws:eks")
    assert f"{file} reads the variables HOME, RLFT_KUBERNETES_CONTEXT" in caplog.text


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ("{tracking_uri: 'http://h', tracking_username: u, tracking_password: plain}", "tracking_password"),
        ("{tracking_uri: 'http://h', tracking_token: t}", "tracking_token"),
        ("{tracking_uri: 'databricks', databricks_host: h, databricks_client_secret: s}", "databricks_client_secret"),
    ],
)
def test_a_setting_for_secrets_takes_a_reference_alone(write, config, place):
    with pytest.raises(StackError, match="would stand in ZenML's registry in the clear") as refused:
        validate_components(read_stack_file(write(config)))
    assert refused.value.where == f"experiment_tracker.config.{place}"


def test_an_address_of_a_store_holds_no_password(write):
    store = "{name: s3, flavor: s3, config: {path: 's3://b', client_kwargs: {endpoint_url: 'http://u:Wq6-Wq6@h'}}}"
    file = write(f'{{tracking_uri: "{PLAIN}"}}')
    file.write_text(file.read_text().replace("artifact_store: {name: default}", f"artifact_store: {store}"))
    with pytest.raises(StackError) as refused:
        validate_components(read_stack_file(file))
    assert refused.value.where == "artifact_store.config.client_kwargs.endpoint_url"
    assert "Wq6" not in str(refused.value)


@pytest.mark.parametrize(
    "config",
    [
        f'{{tracking_uri: "{PLAIN}"}}',
        "{tracking_uri: 'http://h'}",
        f"{{tracking_uri: 'http://h', tracking_token: {NO_AUTHENTICATION}}}",
        "{tracking_uri: 'http://h', tracking_username: u, tracking_password: '{{mlflow.password}}'}",
    ],
)
def test_references_and_what_is_no_secret_are_taken(write, config, monkeypatch):
    monkeypatch.setattr("mlops.stacks.file.validate_stack_component_config", lambda *_: None)  # has no such secret
    validate_components(read_stack_file(write(config)))


@pytest.mark.parametrize(
    "pod",
    [
        {"env": [{"name": "OPENAI_API_KEY", "value": "sk-" + "Wq6" * 12}]},
        {"env": [{"name": "HARMLESS", "value": "hf_" + "Wq6" * 12}]},
        {"annotations": {"api_key": "Wq6-Wq6-Wq6"}},
        {"additional_pod_spec_args": {"init_containers": [{"args": ["--key", "hf_" + "Wq6" * 12]}]}},
    ],
)
def test_a_pod_takes_its_secrets_from_the_cluster(pod):
    with pytest.raises(StackError, match="would stand in ZenML's registry in the clear") as refused:
        check_settings({"orchestrator_pod_settings": pod}, {}, "orchestrator.config")
    assert "valueFrom: {secretKeyRef:" in refused.value.fix
    assert "Wq6" not in str(refused.value)


@pytest.mark.parametrize(
    "pod",
    [
        {"affinity": {"matchExpressions": [{"key": "karpenter.k8s.aws/instance-gpu-name", "operator": "Exists"}]}},
        {"tolerations": [{"key": "example.com/gpu-a100-80gb", "operator": "Exists"}]},
        {
            "volumes": [
                {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "a.b"}}]}}
            ]
        },
        {"volumes": [{"name": "s", "secret": {"secretName": "rlft-s3-7f9c", "items": [{"key": "account-v2.json"}]}}]},
        {"env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "n", "key": "openai-key-2024b-prod1"}}}]},
        {"env_from": [{"secretRef": {"name": "rlft-secret-7f9c"}}], "node_selectors": {"gpu.token": "a100-80gb-x1"}},
    ],
)
def test_names_in_a_pod_are_no_secrets(pod):
    check_settings({"pod_settings": pod}, {}, "orchestrator.config")


def test_the_marks_of_zenml_are_where_they_are_looked_for():
    flavor = Client().get_flavor_by_name_and_type(name="s3", component_type=StackComponentType.ARTIFACT_STORE)
    marked = {key for key, said in flavor.config_schema["properties"].items() if said.get("sensitive")}
    assert {"key", "secret", "token"} <= marked


def test_the_address_of_a_server_holds_no_password_and_it_is_not_said(write):
    for address, said in (("http://anna:Wq6-Wq6@h", "server: what has an @"), ("h:8080", "server: 'h:8080' is no")):
        with pytest.raises(StackError, match=said) as refused:
            read_stack_file(write(f'{{tracking_uri: "{PLAIN}"}}', f"server: {address}\n"))
        assert "Wq6" not in str(refused.value)
    read = read_stack_file(write(f'{{tracking_uri: "{PLAIN}"}}', "server: https://h/zenml/\n"))
    assert read.server == "https://h/zenml"
