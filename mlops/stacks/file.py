"""Reads a stack from a file, and registers it in the user's ZenML; applied again, the file updates the stack.

A file that holds a secret is refused: ZenML keeps a component's settings as they are, for all who share it to read.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError
from zenml.client import Client
from zenml.enums import StackComponentType, StoreType
from zenml.exceptions import ArtifactStoreInterfaceError
from zenml.stack.utils import validate_stack_component_config

from mlops.stacks.kubernetes import SETTINGS, WAY_OUT_OF_PODS, check_pods
from mlops.stacks.stack import check_tracking_address, describe_refusal
from mlops.tracking.address import CREDENTIALS, NO_AUTHENTICATION
from rlft.config import Section
from rlft.config.file import read_settings
from rlft.config.section import check_address, check_name
from rlft.errors import StackError
from rlft.files import texts_in
from rlft.texts.secrets import find_secrets, redact

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

    Raises RlftError, which names what is wrong or missing, and variables that hold a secret.
    """
    text = json.dumps(read_settings(path, example="configs/stacks/local.yaml"), default=str)
    names = sorted(set(re.findall(r"\$\{(\w+)\}", text)))
    if missing := [name for name in names if name not in os.environ]:
        what, way_out = f"these variables are not set: {', '.join(missing)}", f"export {missing[0]}=... and so on"
        raise StackError(what, where=str(path), fix=f"{way_out}, then apply the file again")
    check_variables({name: os.environ[name] for name in names}, str(path))
    if names:
        logger.info("%s reads the variables %s", path, ", ".join(names))
    for name in names:
        text = text.replace(f"${{{name}}}", json.dumps(os.environ[name])[1:-1])
    try:
        return StackFile.model_validate_json(text)
    except ValidationError as cause:
        fix = "start from a shipped one, such as configs/stacks/local.yaml"
        raise StackError(f"not a stack file:\n{describe_refusal(cause)}", where=str(path), fix=fix) from cause


def validate_components(stack: StackFile) -> None:
    """Check each component's settings against its flavor, and pods against Kubernetes' API.

    Raises StackError, which names component and setting.
    """
    for kind, component in stack.components().items():
        if component.flavor is None:
            continue
        what, where = f"the {component.flavor} {kind.value}", f"{kind.value}.config"
        settings = as_zenml_takes_them(kind, component)
        try:
            flavor = Client().get_flavor_by_name_and_type(name=component.flavor, component_type=kind)
            check_settings(settings, flavor.config_schema.get("properties", {}), where)
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


_WAY_OUT = (
    "put it into a secret of ZenML, `zenml secret create NAME --interactive` (with --private for yourself alone), and "
    "write {{NAME.KEY}} in the file"
)


def check_variables(variables: Mapping[str, str], where: str) -> None:
    """Raise StackError for a variable that holds a secret, by its name or its value, and would stand in a stack."""
    if secret := sorted(name for name, value in variables.items() if find_secrets({name: value})):
        named = ", ".join(f"${{{name}}}" for name in secret)
        what = f"{named}: what looks like a secret would stand in ZenML's registry"
        raise StackError(f"{what}, which shows it to all who share the stack", where=where, fix=_WAY_OUT)


def check_settings(config: Mapping[str, Any], properties: Mapping[str, Any], where: str) -> None:
    """Raise StackError for settings of a component that hold a secret in the clear.

    `properties` is what the JSON schema of its flavor says of each: ZenML marks those that are for secrets.
    """
    own = {name: _of_pod(each) if each and name in SETTINGS else each for name, each in _own(config).items()}
    found = [key for key in own if properties.get(key, {}).get("sensitive") and "username" not in key and own[key]]
    if found := list(dict.fromkeys([*found, *find_secrets(own)])):
        places = ", ".join(f"{where}.{key}" for key in found)
        what = "this would stand in ZenML's registry in the clear, for all who share the stack"
        is_of_pod = any(key.split(".")[0] in SETTINGS for key in found)
        raise StackError(what, where=places, fix=WAY_OUT_OF_PODS if is_of_pod else _WAY_OUT)


def _of_pod(settings: Any) -> dict[str, Any]:
    """Return what of a pod's settings may hold a secret: its variables and annotations by name, and all texts.

    Names there are Kubernetes' own: the `key` of a label or of a secret is none.
    """
    env = {each.get("name", ""): each.get("value") for each in settings.get("env") or ()}
    return {"env": env, "annotations": settings.get("annotations"), "texts": list(texts_in(settings))}


def _own(value: Any) -> Any:
    """Return a copy of nested lists and maps without the references to secrets, and what stands for no login."""
    if isinstance(value, str):
        return re.sub(r"\{\{[^{}]*\}\}", "", "" if value == NO_AUTHENTICATION else value)
    if isinstance(value, Mapping):
        return {key: _own(each) for key, each in value.items()}
    return [_own(each) for each in value] if isinstance(value, list) else value


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
    stack of a team ZenML's server is asked first.
    """
    if stack.server:
        check_server(stack.server)
    check_secrets({kind.value: component.config for kind, component in stack.components().items()})
    validate_components(stack)
    client = Client()
    ids = {kind: _apply_component(client, kind, component) for kind, component in stack.components().items()}
    existing = client.list_stacks(name=stack.name)
    if existing:
        client.update_stack(existing[0].id, component_updates={kind: [str(value)] for kind, value in ids.items()})
    else:
        client.create_stack(stack.name, {kind: str(value) for kind, value in ids.items()})
    if not stack.server and stack.orchestrator.flavor not in (None, "local") and client.zen_store.type == StoreType.SQL:
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


_REFERENCE = re.compile(r"\{\{\s*([^.{}]+?)\.([^.{}]+?)\s*\}\}")
_PRIVATE = "mlflow"  # the secret of which everybody has their own, as MLflow then knows who does what


def check_server(address: str) -> None:
    """Raise StackError unless the user's ZenML is logged in to the server at this address."""
    from zenml.config.global_config import GlobalConfiguration

    used, address = GlobalConfiguration().store_configuration.url.rstrip("/"), address.rstrip("/")
    login = f"zenml login {redact(address)}"
    if used != address:
        other = "no server" if used.startswith("sqlite") else redact(used)
        what = f"this stack is one of {redact(address)}, and your ZenML uses {other}"
        raise StackError(what, where="server", fix=login)
    try:
        _ = Client().active_user  # asks the server
    except Exception as cause:  # whatever its client raises
        what = f"ZenML's server does not answer, or does not know you: {' '.join(str(cause).split())[:200]}"
        raise StackError(what, where="server", fix=f"{login} --refresh") from None


def check_secrets(configs: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise StackError for a secret that a component's settings refer to, and that ZenML does not have.

    `configs` are the settings by the components' types.
    """
    wanted: dict[str, set[str]] = {}
    for name, key in _REFERENCE.findall(str([*configs.values()])):
        wanted.setdefault(name, set()).add(key)
    for name, keys in wanted.items():
        try:
            there = Client().get_secret_by_name_and_private_status(name).secret_values
            verb, lacks = "update", f"ZenML's secret {name!r} lacks {', '.join(sorted(keys - set(there)))}"
        except KeyError:
            there, verb, lacks = {}, "create", f"ZenML has no secret {name!r} that you may read"
        if keys - set(there):
            places = ", ".join(kind for kind, config in configs.items() if f"{{{{{name}." in str(config))
            options = "--private " * (name == _PRIVATE and verb == "create")
            fix = f"zenml secret {verb} {name} {options}--interactive, with the keys {' and '.join(sorted(keys))}"
            raise StackError(lacks, where=places, fix=fix)
