"""Sandboxes for Inspect: `sandbox="agentiso"`, or `sandbox=("agentiso", AgentisoConfig(...))`.

Each sample gets a workspace of its own, in which commands run as an ordinary user.
"""

from __future__ import annotations

import os
import posixpath
from typing import Any, Literal, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    sandboxenv,
)
from pydantic import BaseModel, ConfigDict

from agentiso.client import AsyncAgentiso
from agentiso.errors import AgentisoError, CommandNotStarted, CommandTimeout
from agentiso.files import FileTooLarge
from agentiso.users import make_user
from agentiso.workspace import AsyncWorkspace

# Shell exit codes for commands that do not start.
NOT_FOUND = 127


class AgentisoConfig(BaseModel):
    """Settings of a sample's workspace. Absent values mean agentiso's defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str | None = None
    vcpus: int | None = None
    memory_mb: int | None = None
    disk_gb: int | None = None
    user: str = "agent"


@sandboxenv(name="agentiso")
class AgentisoSandbox(SandboxEnvironment):
    """The workspace of one sample."""

    def __init__(self, client: AsyncAgentiso, workspace: AsyncWorkspace, user: str, home: str) -> None:
        super().__init__()
        self._client = client
        self._workspace = workspace
        self._user = user
        self._home = home

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        return {"default": await cls.create(config if isinstance(config, AgentisoConfig) else AgentisoConfig())}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            await environment.as_type(cls).destroy()

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return AgentisoConfig(**config)

    @classmethod
    async def create(cls, config: AgentisoConfig) -> AgentisoSandbox:
        """Creates a workspace with an ordinary user in it."""
        client = await AsyncAgentiso.connect("inspect")
        try:
            workspace = await client.create(
                image=config.image, vcpus=config.vcpus, memory_mb=config.memory_mb, disk_gb=config.disk_gb
            )
            try:
                home = await make_user(workspace, config.user)
            except BaseException:
                await workspace.destroy()
                raise
        except BaseException:
            await client.close()
            raise
        return cls(client, workspace, config.user, home)

    async def destroy(self) -> None:
        """Removes the workspace."""
        try:
            await self._workspace.destroy()
        finally:
            await self._client.close()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        try:
            done = await self._workspace.exec(
                cmd,
                input=input,
                cwd=self._path(cwd or ""),
                env=env,
                user=user or self._user,
                timeout=timeout,
            )
        except CommandTimeout as error:
            raise TimeoutError(error.message) from error
        except CommandNotStarted as error:
            if error.reason == "not_executable":
                raise PermissionError(f"{cmd[0]}: permission denied") from error
            return ExecResult(False, NOT_FOUND, "", f"{error.message}\n")
        except AgentisoError as error:
            if error.code in ("not_found", "invalid_argument") and user is not None:
                return ExecResult(False, NOT_FOUND, "", f"{error.message}\n")
            raise
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        for output in (done.stdout, done.stderr):
            if len(output) > limit:
                raise OutputLimitExceededError(
                    SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, output[-limit:].decode(errors="replace")
                )
        stdout, stderr = (output.decode(errors="replace") for output in (done.stdout, done.stderr))
        return ExecResult(done.ok, done.exit_code, stdout, stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        await self._workspace.write_file(self._path(file), contents, user=self._user)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            content = await self._workspace.read_file(self._path(file), user=self._user, limit=limit)
        except FileTooLarge as error:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None) from error
        return content.decode() if text else content

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        name = self._workspace.name
        return SandboxConnection(type="agentiso", command=f"agentiso shell {name}", container=name)

    def _path(self, path: str) -> str:
        """Relative paths start at the user's home."""
        return posixpath.join(self._home, os.fspath(path))
