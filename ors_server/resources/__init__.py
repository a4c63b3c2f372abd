"""Resources that a rollout's tools and rewards share: specs, pools, and the context that leads to them."""

from ors_server.resources.jvm_child import JvmChild, find_java
from ors_server.resources.local_resource import LocalBackend, LocalEnvResource
from ors_server.resources.resource import Resource, ResourceBackend, ResourceStatus
from ors_server.resources.resource_context import Context, Scope
from ors_server.resources.resource_errors import (
    MissingRequirementError,
    ResourceCallError,
    ResourceClosedError,
    ResourceError,
    ResourceStartError,
    ResourceTimeoutError,
    ResourceUseError,
    UnboundResourceError,
)
from ors_server.resources.resource_pool import ResourcePool
from ors_server.resources.spec import (
    ALFWorldSpec,
    LocalEnvResourceSpec,
    NamedResourceSpec,
    PythonEnvSpec,
    ResourceSpec,
    ScienceWorldSpec,
    WebShopSpec,
    WorkerEnvResourceSpec,
)
from ors_server.resources.worker_env_resource import WorkerEnvResource

__all__ = [
    "ALFWorldSpec",
    "Context",
    "JvmChild",
    "LocalBackend",
    "LocalEnvResource",
    "LocalEnvResourceSpec",
    "MissingRequirementError",
    "NamedResourceSpec",
    "PythonEnvSpec",
    "Resource",
    "ResourceBackend",
    "ResourceCallError",
    "ResourceClosedError",
    "ResourceError",
    "ResourcePool",
    "ResourceSpec",
    "ResourceStartError",
    "ResourceStatus",
    "ResourceTimeoutError",
    "ResourceUseError",
    "ScienceWorldSpec",
    "Scope",
    "UnboundResourceError",
    "WebShopSpec",
    "WorkerEnvResource",
    "WorkerEnvResourceSpec",
    "find_java",
]
