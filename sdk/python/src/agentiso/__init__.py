"""Linux workspaces for AI agents: run anything, snapshot, fork, roll back.

`Agentiso` and `Workspace` block; `AsyncAgentiso` and `AsyncWorkspace` are for asyncio and trio. `agentiso.avfs` works on
vaults, without a daemon and without other packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentiso.errors import AgentisoError, CommandNotStarted, CommandTimeout

if TYPE_CHECKING:
    from agentiso.blocking import Agentiso, Workspace
    from agentiso.client import AsyncAgentiso
    from agentiso.workspace import AsyncWorkspace, ExecResult

__all__ = [
    "Agentiso",
    "AgentisoError",
    "AsyncAgentiso",
    "AsyncWorkspace",
    "CommandNotStarted",
    "CommandTimeout",
    "ExecResult",
    "Workspace",
]

# Imported when they are first used: they need packages that agentiso.avfs does not.
_MODULES = {
    "Agentiso": "agentiso.blocking",
    "Workspace": "agentiso.blocking",
    "AsyncAgentiso": "agentiso.client",
    "AsyncWorkspace": "agentiso.workspace",
    "ExecResult": "agentiso.workspace",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'agentiso' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
