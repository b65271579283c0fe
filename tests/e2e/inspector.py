"""Answer questions about a home's stores: one JSON text of code a line in, one JSON object a line out."""

import contextlib
import io
import json
import sys
import traceback


def main() -> None:
    """Read until the other side closes."""
    from mlops.home.folder import find_home
    from mlops.home.variables import quieten
    from mlops.stacks.stack import connect

    quieten(False)
    uri = connect(find_home(), None)
    from zenml.client import Client

    from mlops.registry.client import RegistryClient

    answers = sys.stdout
    for line in sys.stdin:
        printed = io.StringIO()
        names = {"client": Client(), "mlflow_client": RegistryClient(uri), "uri": uri, "json": json}
        try:
            with contextlib.redirect_stdout(printed):
                exec(json.loads(line), names)
            answer = {"printed": printed.getvalue().strip().splitlines()[-1]}
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
