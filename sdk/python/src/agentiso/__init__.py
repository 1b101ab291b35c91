"""Linux workspaces for AI agents: run anything, snapshot, fork, roll back.

`Agentiso` and `Workspace` block; `AsyncAgentiso` and `AsyncWorkspace` are for asyncio and trio.
"""

from agentiso.blocking import Agentiso, Workspace
from agentiso.client import AsyncAgentiso
from agentiso.errors import AgentisoError, CommandNotStarted, CommandTimeout
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
