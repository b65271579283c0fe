"""Reads a stack from a file, and registers it in the user's ZenML; applied again, the file updates the stack."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError
from zenml.client import Client
from zenml.enums import StackComponentType, StoreType
from zenml.exceptions import ArtifactStoreInterfaceError
from zenml.stack.utils import validate_stack_component_config

from mlops.stacks.in_the_clear import check_settings, check_variables
from mlops.stacks.kubernetes import check_pods
from mlops.stacks.stack import check_tracking_address, describe_refusal
from mlops.stacks.team import check_flavors, check_parts, check_secrets, check_server
from mlops.tracking.address import CREDENTIALS, NO_AUTHENTICATION
from rlft.config import Section
from rlft.config.addresses import check_address
from rlft.config.section import check_name
from rlft.config.yaml_text import read_yaml
from rlft.errors import StackError

logger = logging.getLogger(__name__)


def _address(server: str | None) -> str | None:
    return None if server is None else check_address(server, path="/zenml")


Name = Annotated[str, AfterValidator(check_name)]


class ComponentFile(Section):
    """One component of a stack; without a flavor it names one that is registered already."""

    name: Name
    flavor: str | None = None
    config: dict[str, Any] = Field(default={})


class StackFile(Section):
    """A stack and its components, by ZenML's names of their types.

    `server` is the address of the ZenML server of the team that shares it: what the file names is then checked.
    """

    name: Name
    server: Annotated[str | None, AfterValidator(_address)] = None
    orchestrator: ComponentFile
    artifact_store: ComponentFile
    experiment_tracker: ComponentFile
    container_registry: ComponentFile | None = None
    image_builder: ComponentFile | None = None

    def components(self) -> dict[StackComponentType, ComponentFile]:
        """Return the components that the file has, by their types."""
        return {
            kind: component
            for kind in StackComponentType
            if isinstance(component := getattr(self, kind.value, None), ComponentFile)
        }


def read_stack_file(path: Path) -> StackFile:
    """Read a file and fill in `${VARIABLES}` from the environment, whose names are logged.

    Raises StackError, which names what is wrong or missing, and variables that hold a secret. Those in comments need
    not be set.
    """
    fix = "start from a shipped one, such as configs/stacks/local.yaml"
    if not path.is_file():
        raise StackError("no such file", where=str(path), fix=fix)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as cause:
        raise StackError("this is no text in UTF-8", where=str(path), fix="save it as such") from cause
    without_comments = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    names = sorted(set(re.findall(r"\$\{(\w+)\}", without_comments)))
    if missing := [name for name in names if name not in os.environ]:
        what, way_out = f"these variables are not set: {', '.join(missing)}", f"export {missing[0]}=... and so on"
        raise StackError(what, where=str(path), fix=f"{way_out}, then apply the file again")
    check_variables({name: os.environ[name] for name in names}, str(path))
    if names:
        logger.info("%s reads the variables %s", path, ", ".join(names))
    for name in names:
        text = text.replace(f"${{{name}}}", os.environ[name])
    try:
        return StackFile.model_validate(read_yaml(text))
    except ValidationError as cause:
        raise StackError(f"not a stack file:\n{describe_refusal(cause)}", where=str(path), fix=fix) from cause
    except ValueError as cause:
        raise StackError(f"not readable as YAML: {cause}", where=str(path), fix=fix) from cause


def validate_components(stack: StackFile) -> None:
    """Check each component's settings against its flavor, and pods against Kubernetes' API.

    Raises StackError, which names component and setting.
    """
    client = Client()
    for kind, component in stack.components().items():
        if component.flavor is None:
            continue
        try:
            flavor = client.get_flavor_by_name_and_type(name=component.flavor, component_type=kind)
        except KeyError:
            there = sorted(flavor.name for flavor in client.list_flavors(type=kind, size=200))
            what, fix = f"ZenML has no {kind.value} {component.flavor!r}", f"write one of {', '.join(there)}"
            raise StackError(what, where=f"{kind.value}.flavor", fix=fix) from None
        what, where = f"the {component.flavor} {kind.value}", f"{kind.value}.config"
        known = flavor.config_schema.get("properties", {})
        if unknown := sorted(set(component.config) - set(known)):
            said, fix = f"{what} has no setting {', '.join(unknown)}", f"it has: {', '.join(sorted(known))}"
            raise StackError(said, where=f"{stack.name}.{where}", fix=fix)
        settings = as_zenml_takes_them(kind, component)
        try:
            check_settings(settings, known, where)
            if component.flavor == "kubernetes" and kind == StackComponentType.ORCHESTRATOR:
                check_pods(stack)
            validate_stack_component_config(settings, flavor, kind)
        # pydantic's ValidationError is a ValueError; of a list where a text belongs ZenML raises the first two.
        except (AttributeError, TypeError, ValueError, KeyError, ImportError, ArtifactStoreInterfaceError) as cause:
            said = f"ZenML does not take {what}:\n{describe_refusal(cause, where)}"
            fix = (
                'correct the settings there: none is left empty, a number that is a text has quotes ("8"), a secret is '
            )
            fix += "made with `zenml secret create NAME --private --interactive`, without --private for all"
            if isinstance(cause, ImportError):
                fix = "install what it needs: make setup-kubernetes, or for S3 alone make setup-team"
            raise StackError(said, where=stack.name, fix=fix) from cause


def as_zenml_takes_them(kind: StackComponentType, component: ComponentFile) -> dict[str, Any]:
    """Return the component's settings, with a placeholder for the login that ZenML wants for every MLflow server.

    It is added where the file names none (`NO_AUTHENTICATION`). Raises StackError for an address that holds a password.
    """
    config = component.config
    address = config.get("tracking_uri")
    if kind != StackComponentType.EXPERIMENT_TRACKER or component.flavor != "mlflow" or not isinstance(address, str):
        return config
    check_tracking_address(address, where=f"{kind.value}.config.tracking_uri")
    if address.startswith(("http://", "https://")) and not any(config.get(name) for name in CREDENTIALS):
        return {**config, "tracking_token": NO_AUTHENTICATION}
    return config


def apply_stack_file(stack: StackFile) -> str:
    """Register or update the components and the stack in the active ZenML; returns the stack's name.

    Raises StackError before anything is registered if a secret is missing, or a component's settings are wrong. Of the
    stack of a team its servers are asked, too: ZenML's before, the store and MLflow's once the stack is registered. One
    without `server` may name such as answer within its cluster alone.
    """
    components = {kind.value: component for kind, component in stack.components().items()}
    if stack.server:
        check_flavors({kind: component.flavor for kind, component in components.items()})
        check_server(stack.server)
    check_secrets({kind: component.config for kind, component in components.items()})
    validate_components(stack)
    client = Client()
    ids = {kind: _apply_component(client, kind, component) for kind, component in stack.components().items()}
    existing = client.list_stacks(name=stack.name)
    if existing:
        client.update_stack(existing[0].id, component_updates={kind: [str(value)] for kind, value in ids.items()})
    else:
        client.create_stack(stack.name, {kind: str(value) for kind, value in ids.items()})
    if stack.server:
        check_parts(stack.name)
    elif stack.orchestrator.flavor not in (None, "local") and client.zen_store.type == StoreType.SQL:
        logger.warning(
            "ZenML's database is on this machine, where pods and others do not reach it: use `zenml login` with the "
            "address of a server, and apply the file again"
        )
    return stack.name


def _apply_component(client: Client, kind: StackComponentType, component: ComponentFile) -> Any:
    """Register or update a component, or find the one that is only named; returns its id. Raises StackError."""
    name, existing = component.name, client.list_stack_components(name=component.name, type=kind)
    if component.flavor is None:
        if not existing:
            fix = "give it a flavor and a config, or name one that exists"
            raise StackError(f"there is no {kind.value} {name!r}", where=kind.value, fix=fix)
        return existing[0].id
    settings = as_zenml_takes_them(kind, component)
    if not existing:
        made = client.create_stack_component(name, component.flavor, component_type=kind, configuration=settings)
        return made.id
    if existing[0].flavor_name != component.flavor:
        what = f"there is a {existing[0].flavor_name} {kind.value} of the name {name!r} already"
        raise StackError(what, where=f"{kind.value}.name", fix="give this one another name")
    # ZenML keeps settings that an update does not mention: a login that the file no longer has is unset.
    forgotten = {each: None for each in CREDENTIALS if each in existing[0].configuration}
    return client.update_stack_component(
        existing[0].id, component_type=kind, configuration={**forgotten, **settings}
    ).id
