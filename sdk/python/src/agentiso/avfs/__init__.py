"""Vaults: versioned files with forks and checkpoints, and a policy boundary in front of every command.

    from agentiso.avfs import AVFS

    project = AVFS.create("agent-workspace")
    project.write("/hello.txt", "hello\\n")
    task = project.fork("agent-workspace-task-1")
    envelope = task.exec(["wc", "-l", "hello.txt"])
    print(envelope.result.stdout, envelope.result.changed_files)

Everything is done by the program `avfs`, once per call. No daemon is needed. A command that fails, is denied, needs
approval or times out is a result: `exec` returns its envelope. Other errors raise `AvfsError`.
"""

from agentiso.avfs.envelope import (
    Approval,
    Capture,
    Change,
    Conflict,
    Decision,
    Enforcement,
    Envelope,
    Error,
    Fork,
    Protection,
    Request,
    Result,
    Usage,
)
from agentiso.avfs.program import AvfsError, Program, avfs
from agentiso.avfs.session import Session
from agentiso.avfs.vault import AVFS

__all__ = [
    "AVFS",
    "Approval",
    "AvfsError",
    "Capture",
    "Change",
    "Conflict",
    "Decision",
    "Enforcement",
    "Envelope",
    "Error",
    "Fork",
    "Program",
    "Protection",
    "Request",
    "Result",
    "Session",
    "Usage",
    "avfs",
]
