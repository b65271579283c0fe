"""The step `write_report` makes the page about the run that it ends, which ZenML's dashboard shows."""

import logging
from typing import Annotated, Any

from zenml import step
from zenml.types import HTMLString

from materializers.page import PageMaterializer
from mlops.home.folder import find_home
from mlops.runs.finding import find_run
from mlops.runs.report import make_report
from mlops.runs.shared import SharedRun
from mlops.summary.summary import Summary
from rlft.secrets import hide

logger = logging.getLogger(__name__)


@step(enable_cache=False, output_materializers=PageMaterializer)
def write_report(run_id: str, summary: dict[str, Any]) -> Annotated[HTMLString, "report"]:
    """Write the page about a run by its id; `summary` is what came of it, as `Summary` dumps it.

    A page that cannot be made says why, since by then the run has come to what it has come to.
    """
    try:
        return HTMLString(make_report(SharedRun(find_home(), find_run(run_id)), Summary.model_validate(summary)))
    except Exception as cause:  # a store that is away, or an artifact that has changed: both are told elsewhere
        logger.warning("ZenML has no report of the run; `rlft report` writes it: %s", hide(str(cause)))
        return HTMLString("<p>The report could not be made. <code>rlft report</code> writes it and says why not.</p>")
