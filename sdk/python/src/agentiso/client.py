"""The asynchronous client of a daemon."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from agentiso.errors import AgentisoError
from agentiso.transport import Address, Transport, find_daemon
from agentiso.workspace import AsyncWorkspace


class AsyncAgentiso:
    """A client of one daemon. Use `await AsyncAgentiso.connect()`, or `async with`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @classmethod
    async def connect(
        cls, client: str = "agentiso-python", *, address: Address | None = None, session: bool = True
    ) -> AsyncAgentiso:
        """Connects to this user's daemon, which is started if it does not run.

        Without a session the client acts as the user, who may use every workspace; with one, workspaces it creates
        are its own.
        """
        transport = Transport(address or await find_daemon())
        try:
            if session:
                await transport.begin_session(client)
        except BaseException:
            await transport.close()
            raise
        return cls(transport)

    async def create(
        self,
        name: str | None = None,
        *,
        image: str | None = None,
        vcpus: int | None = None,
        memory_mb: int | None = None,
        disk_gb: int | None = None,
    ) -> AsyncWorkspace:
        """Creates and starts a workspace."""
        asked = {"name": name, "base_image": image, "vcpus": vcpus, "memory_mb": memory_mb, "disk_gb": disk_gb}
        asked = {key: value for key, value in asked.items() if value is not None}
        return AsyncWorkspace(self._transport, await self._transport.request("POST", "/v1/workspaces", asked))

    async def get(self, workspace: str) -> AsyncWorkspace:
        """Finds a workspace by id or name."""
        return AsyncWorkspace(self._transport, await self._transport.request("GET", f"/v1/workspaces/{workspace}"))

    async def list(self) -> list[dict[str, Any]]:
        """Lists all workspaces that this client can see."""
        answer = await self._transport.request("GET", "/v1/workspaces")
        if not isinstance(answer, dict) or "workspaces" not in answer:
            raise AgentisoError("internal", "the daemon's response has no list of workspaces")
        return answer["workspaces"]

    async def close(self) -> None:
        """Closes the connection. Workspaces keep running."""
        await self._transport.close()

    async def __aenter__(self) -> AsyncAgentiso:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
