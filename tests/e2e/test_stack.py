"""Stacks from files, in a ZenML of a user's own: applied twice, run on, and refused where they cannot work."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import ROOT, TINY, Home, free_port

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


class UserHome(Home):
    """A home whose user has a ZenML of their own."""

    def environment(self) -> dict[str, str]:
        own = {
            "ZENML_CONFIG_PATH": str(self.folder / "zenml"),
            "ZENML_LOCAL_STORES_PATH": str(self.folder / "stores"),
            "HOME": str(self.folder),
            "RLFT_KUBERNETES_CONTEXT": "test",
            "RLFT_ARTIFACTS_PATH": "s3://bucket/path",
            "RLFT_IMAGE_REGISTRY": "registry.example",
            "RLFT_MLFLOW_URI": "http://127.0.0.1:9",
        }
        base = {key: value for key, value in super().environment().items() if key != "ZENML_STORE_URL"}
        return base | own

    def ask(self, code: str):
        """Evaluate code in the user's own ZenML."""
        prelude = "import json\nfrom mlops.home.variables import quieten\nquieten(False)\n"
        done = self.code(f"{prelude}from zenml.client import Client\nclient = Client()\n{code}")
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def user(tmp_path_factory) -> UserHome:
    return UserHome(tmp_path_factory.mktemp("user"))


def test_the_local_stack_is_applied_twice_and_run_on(user):
    for _ in range(2):
        applied = user.rlft("stack", str(ROOT / "configs" / "stacks" / "local.yaml"))
        assert applied.code == 0, applied.output
    before = user.ask("print(json.dumps(client.active_stack_model.name))")
    options = ["--set", "training.rounds=1", "--set", "controls=[]"]
    result = user.rlft("run", str(TINY), "--stack", "rlft-local", *options)
    assert result.code == 0, result.output
    after, runs = user.ask(
        "print(json.dumps([client.active_stack_model.name, [r.status.value for r in client.list_pipeline_runs()]]))"
    )
    assert after == before == "default"  # the user's active stack is as it was
    assert runs == ["completed"]
    assert (user.folder / ".rlft-mlflow.db").is_file()
    assert not (user.folder / ".rlft" / "zenml").exists()
    assert not (user.folder / ".rlft" / "mlflow.db").exists()
    (user.folder / ".rlft").rename(user.folder / "gone")  # as for somebody else who uses the stack
    [listed] = json.loads(user.module("cli", "runs", "--stack", "rlft-local", "--json").stdout)
    assert (listed["kind"], listed["status"]) == ("training", result.summary["status"])
    assert listed["attempts"] == [result.summary["pipeline_run_id"]]
    assert listed["difference"] == result.summary["difference"]
    assert listed["version"] == {"name": "tiny", "version": "1"}


@pytest.fixture(scope="module")
def mlflow_server(tmp_path_factory):
    """The address of a real MLflow server that asks nobody who they are."""
    folder = tmp_path_factory.mktemp("mlflow")
    address, log = f"http://127.0.0.1:{free_port()}", folder / "log"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", address.rsplit(":", 1)[1]]
    command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"]
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
    yield wait_for(address, server, log)
    server.terminate()
    server.wait(30)


def wait_for(address: str, server: subprocess.Popen, log: Path) -> str:
    while server.poll() is None:
        try:
            httpx.get(f"{address}/health").raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.2)
        else:
            return address
    raise AssertionError(log.read_text())


def http_stack(folder: Path, address: str, more: str = "") -> str:
    """A stack file over this machine with a tracker at an address."""
    text = (ROOT / "configs" / "stacks" / "local.yaml").read_text().replace("rlft-local", "http")
    text = text.replace("rlft-mlflow\n", "http-mlflow\n").replace(
        'sqlite:///${HOME}/.rlft-mlflow.db"', f'{address}"{more}'
    )
    (folder / "http.yaml").write_text(text)
    return str(folder / "http.yaml")


def tracker_of(user: UserHome) -> dict[str, str]:
    """What ZenML's registry has of the tracker."""
    return user.ask("print(json.dumps(client.get_stack_component('experiment_tracker', 'http-mlflow').configuration))")


def test_a_server_without_authentication_needs_none(user, mlflow_server, tmp_path):
    applied = user.rlft("stack", http_stack(tmp_path, mlflow_server))
    assert applied.code == 0, applied.output
    assert tracker_of(user) == {"tracking_uri": mlflow_server, "tracking_token": "no-authentication"}
    options = ["--set", "training.rounds=1", "--set", "controls=[]"]
    result = user.rlft("run", str(TINY), "--stack", "http", *options)
    assert result.code == 0, result.output
    assert "rlft ui --stack http" in result.output
    api = f"{mlflow_server}/api/2.0/mlflow"
    runs = httpx.post(f"{api}/runs/search", json={"experiment_ids": ["1"]}).json()["runs"]
    assert [run["info"]["run_id"] for run in runs] == [result.summary["mlflow_run_id"]]
    [model] = httpx.get(f"{api}/registered-models/search").json()["registered_models"]
    assert model["name"] == "tiny"
    shown = user.rlft("ui", "--stack", "http")
    assert (shown.code, f"{mlflow_server}/#/models" in shown.output) == (0, True)


def test_a_server_with_a_password_later_has_no_other_way_to_log_in(user, tmp_path):
    user.ask("client.create_secret('login', {'token': 't', 'pass': 'p'})\nprint(json.dumps(1))")
    both = ", tracking_username: u, tracking_password: '{{login.pass}}'"
    for more, stored in (
        (", tracking_token: '{{login.token}}'", {"tracking_token"}),
        ("", {"tracking_token"}),
        (both, {"tracking_username", "tracking_password"}),
        ("", {"tracking_token"}),
    ):
        applied = user.rlft("stack", http_stack(tmp_path, "http://127.0.0.1:9", more))
        assert applied.code == 0, applied.output
        assert set(tracker_of(user)) == {"tracking_uri"} | stored


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (", tracking_username: u", "experiment_tracker.config: MLflow username/password authentication requires both"),
        (
            ", tracking_insecure_tls: perhaps",
            "experiment_tracker.config.tracking_insecure_tls: Input should be a valid",
        ),
        (", tracking_username: u, tracking_password: '{{absent.p}}'", "ZenML has no secret 'absent' that you may read"),
    ],
)
def test_what_zenml_does_not_take_is_a_sentence_with_its_key(user, tmp_path, more, said):
    refused = user.rlft("stack", http_stack(tmp_path, "http://127.0.0.1:9", more))
    assert refused.code == 2
    assert said in refused.output
    assert "pydantic" not in refused.output
    assert "resume" not in refused.output


def test_a_password_in_the_address_is_not_stored(user, tmp_path):
    refused = user.rlft("stack", http_stack(tmp_path, "http://u:Wq6-Wq6-Wq6@127.0.0.1:9"))
    assert refused.code == 2
    assert "the tracker's address holds a secret" in refused.output
    assert "Wq6" not in refused.output
    assert "@" not in tracker_of(user)["tracking_uri"]


def test_a_stack_without_a_tracker_is_refused_with_the_way_out(user):
    result = user.rlft("run", str(TINY), "--stack", "default")
    assert result.code == 2
    assert "no MLflow experiment tracker" in result.output
    assert "zenml experiment-tracker register" in result.output


def test_an_unknown_stack_is_refused_with_the_known_ones(user):
    result = user.rlft("run", str(TINY), "--stack", "nowhere")
    assert result.code == 2
    assert "default" in result.output


@pytest.fixture(scope="module")
def kubernetes(user) -> UserHome:
    """The user with the Kubernetes stack, and the secret that it names."""
    file = str(ROOT / "configs" / "stacks" / "kubernetes-gpu.yaml")
    for done, said in (
        ("1", "ZenML has no secret 'mlflow' that you may read"),
        ("client.create_secret('mlflow', {'username': 'u'}).name", "ZenML's secret 'mlflow' lacks password"),
    ):
        user.ask(f"print(json.dumps({done}))")
        refused = user.rlft("stack", file)
        assert refused.code == 2
        assert said in " ".join(refused.output.split())
    user.ask("print(json.dumps(client.update_secret('mlflow', add_or_update_values={'password': 'p'}).name))")
    applied = user.rlft("stack", file)
    assert applied.code == 0, applied.output
    assert "ZenML's database is on this machine" in applied.output  # where no pod reaches it
    return user


def test_the_kubernetes_stack_is_registered_as_far_as_a_machine_without_a_cluster_can(kubernetes):
    pod = kubernetes.ask("""
stack = client.get_stack("rlft-kubernetes-gpu")
orchestrator = stack.components["orchestrator"][0]
print(json.dumps(orchestrator.configuration["orchestrator_pod_settings"]["resources"]["limits"]))
""")
    assert pod["nvidia.com/gpu"] == "1"  # the GPU belongs to the pod in which all steps run


def test_a_misspelt_pod_is_refused_before_anything_is_registered_or_written(kubernetes, tmp_path):
    text = (ROOT / "configs" / "stacks" / "kubernetes-gpu.yaml").read_text().replace("rlft-kubernetes", "misspelt")
    (tmp_path / "stack.yaml").write_text(text.replace("node_selectors:", "node_selector:"))
    for options in ([], ["--pod", str(tmp_path / "pod.yaml")]):
        refused = kubernetes.rlft("stack", str(tmp_path / "stack.yaml"), *options)
        assert refused.code == 2, refused.output
        assert "a pod has no setting node_selector" in " ".join(refused.output.split())
    assert not (tmp_path / "pod.yaml").exists()
    names = kubernetes.ask("print(json.dumps([each.name for each in client.list_stacks()]))")
    assert "misspelt-gpu" not in names


def test_the_pod_of_a_run_is_written_for_the_cluster_to_look_at(kubernetes, tmp_path):
    file = str(ROOT / "configs" / "stacks" / "kubernetes-gpu.yaml")
    written = kubernetes.rlft("stack", file, "--pod", str(tmp_path / "pod.yaml"))
    assert written.code == 0, written.output
    assert "kubectl apply --dry-run=server" in " ".join(written.output.split())
    assert "image: IMAGE" in (tmp_path / "pod.yaml").read_text()


def test_a_stack_file_with_an_unknown_setting_or_a_missing_variable_is_refused(user, tmp_path):
    text = (ROOT / "configs" / "stacks" / "local.yaml").read_text()
    (tmp_path / "typo.yaml").write_text(text.replace("tracking_uri", "tracking_url"))
    typo = user.rlft("stack", str(tmp_path / "typo.yaml"))
    assert typo.code == 2
    assert "Invalid configuration keys ['tracking_url']" in " ".join(typo.output.split())
    elsewhere = "{name: elsewhere, flavor: local, config: {path: 's3://bucket/runs'}}"
    (tmp_path / "store.yaml").write_text(
        text.replace("artifact_store: {name: default}", f"artifact_store: {elsewhere}")
    )
    store = user.rlft("stack", str(tmp_path / "store.yaml"))
    assert store.code == 2, store.output
    assert "ZenML does not take the local artifact_store" in " ".join(store.output.split())
    (tmp_path / "variable.yaml").write_text(text.replace("${HOME}", "${NOT_SET_ANYWHERE}"))
    variable = user.rlft("stack", str(tmp_path / "variable.yaml"))
    assert variable.code == 2
    assert "NOT_SET_ANYWHERE" in variable.output


def test_a_schedule_on_kubernetes_is_refused_with_what_a_cluster_cannot_keep(kubernetes, tmp_path):
    text = (ROOT / "configs" / "stacks" / "kubernetes-gpu.yaml").read_text()
    # The client of S3 is not installed here.
    local = text.replace("flavor: s3", "flavor: local").replace('{path: "${RLFT_ARTIFACTS_PATH}"}', "{}")
    (tmp_path / "stack.yaml").write_text(local.replace("rlft-artifacts", "here").replace("rlft-kubernetes", "rlft-k8s"))
    applied = kubernetes.rlft("stack", str(tmp_path / "stack.yaml"))
    assert applied.code == 0, applied.output
    schedule = f"name: weekly\nconfig: {TINY}\ncron: 0 4 * * mon\nstack: rlft-k8s-gpu\nwhen: new_tasks\n"
    (kubernetes.folder / "weekly.yaml").write_text(schedule)
    told = kubernetes.rlft("schedule", "apply", "weekly.yaml")
    assert told.code == 2, told.output
    assert "nothing looks for reasons in a cluster; write always" in " ".join(told.output.split())
    listed = json.loads(kubernetes.module("cli", "schedule", "list", "--json").stdout)
    assert "weekly" not in [each["name"] for each in listed]
    refused = kubernetes.rlft("run", str(TINY), "--stack", "rlft-k8s-gpu")
    assert refused.code == 2, refused.output
    assert "ZenML does not take the stack on this machine" in " ".join(refused.output.split())
    assert "kubectl config get-contexts" in " ".join(refused.output.split())


def test_a_schedule_on_a_stack_that_keeps_none_is_kept_here(user):
    applied = user.rlft("stack", str(ROOT / "configs" / "stacks" / "local.yaml"))
    assert applied.code == 0, applied.output
    (user.folder / "here.yaml").write_text(f"name: here\nconfig: {TINY}\ncron: 0 4 * * mon\nstack: rlft-local\n")
    assert user.rlft("schedule", "apply", "here.yaml").code == 0
    [found] = json.loads(user.module("cli", "schedule", "list", "--json").stdout)
    assert (found["name"], found["stack"], found["cluster"]) == ("here", "rlft-local", "")
