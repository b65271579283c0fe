"""The files of a version that is served, as an engine loads them."""

import mlflow
from mlflow.models import Model

from mlops.registry.client import find_version
from mlops.registry.engines import prepare
from mlops.registry.logged_model import PROGRAM, program_text
from tests.mlops.registry.registered import NAME, Registered


def test_mlflows_server_runs_the_program_of_rlft_and_not_the_one_that_lies_in_the_version(tmp_path):
    registered = Registered(tmp_path)
    registered.add()
    address = registered.client.tracking_uri
    (program,) = tmp_path.rglob("model*/**/served_policy.py")
    ran = tmp_path / "ran"
    program.write_text(f"open({str(ran)!r}, 'w')\n" + program.read_text())
    (noted,) = tmp_path.rglob("MLmodel")
    version = prepare(address, find_version(address, NAME, None, "1"), None, tmp_path / "place", export=False)
    assert [(file.name, file.read_text()) for file in version.folder.glob("*.py")] == [(PROGRAM.name, program_text())]
    served = mlflow.pyfunc.load_model(str(version.folder))
    assert served.metadata.signature == Model.load(noted).signature  # the default length of an answer stays
    (text,) = served.predict({"messages": [{"role": "user", "content": "1+1="}]}, params={"max_new_tokens": 3})
    assert isinstance(text, str)
    assert not ran.exists()
