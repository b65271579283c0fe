"""ZenML wants to know its source root before a step is imported; a test worker has no main file to find it by."""

from zenml.utils import source_utils

from mlops.home.folder import PROJECT

source_utils.set_custom_source_root(str(PROJECT))
