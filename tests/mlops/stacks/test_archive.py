"""What ZenML uploads for pods of rlft's clone, and that no password is among it."""

import re

from zenml.utils.code_utils import CodeArchive

from mlops.home.folder import PROJECT
from tests.mlops.stacks.conftest import git


def test_what_the_guide_has_people_write_passwords_into_is_not_uploaded(tmp_path):
    page = (PROJECT / "docs/guide/team.md").read_text()
    named = {*re.findall(r"@(\w+\.json)", page), *re.findall(r"--env-file (\S+)", page)}
    assert {"s3.json", "mlflow.json", "account.json", "compose.env"} <= named
    git(tmp_path, "init")
    for name in (*named, "mlruns/0/meta.yaml", "mlflow.db", "tasks.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text((PROJECT / ".gitignore").read_text())
    assert set(CodeArchive(root=str(tmp_path)).get_files()) == {".gitignore", "tasks.json"}
    removed = {name for line in re.findall(r"^rm (.*)$", page, re.MULTILINE) for name in line.split()}
    assert removed == {name for name in named if name.endswith(".json")}
