"""Connections to a daemon: HTTP and WebSockets, over its socket or over TCP."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
import websockets.asyncio.client as websockets_client
from websockets.asyncio.client import ClientConnection

from agentiso.errors import AgentisoError, from_body

# Larger than any message of the daemon, which sends output in much smaller chunks.
MAX_MESSAGE = 16 << 20


@dataclass(frozen=True)
class Address:
    """The address of a daemon: a Unix socket, or a URL with a token."""

    socket: str | None = None
    url: str | None = None
    token: str | None = None


async def find_daemon(binary: str = "agentiso") -> Address:
    """Returns the address of this user's daemon, and starts it if it is not running.

    `AGENTISO_URL` with `AGENTISO_TOKEN`, or `AGENTISO_SOCKET`, select another daemon.
    """
    if url := os.environ.get("AGENTISO_URL"):
        return Address(url=url, token=os.environ.get("AGENTISO_TOKEN"))
    if socket := os.environ.get("AGENTISO_SOCKET"):
        return Address(socket=socket)
    path = shutil.which(binary)
    if path is None:
        raise AgentisoError("not_found", f"the program {binary!r} is not in PATH", "install agentiso")
    done = await anyio.run_process([path, "daemon", "start", "--json"], check=False)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    if done.returncode != 0 or not isinstance(answer, dict) or "socket" not in answer:
        if isinstance(answer, dict) and "error" in answer:
            raise from_body(0, answer)
        reason = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        raise AgentisoError("internal", f"the daemon did not start: {reason}", "run `agentiso check`")
    return Address(socket=answer["socket"])


class Transport:
    """A connection to a daemon, as one session."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._base = (address.url or "http://localhost").rstrip("/")
        self._token = address.token
        # The daemon responds when an operation has finished, so only connecting has a timeout.
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=address.socket) if address.socket else None,
            base_url=self._base,
            timeout=httpx.Timeout(None, connect=10.0),
            trust_env=False,
        )

    async def begin_session(self, client: str) -> None:
        """Creates a session, which owns the workspaces that this client creates."""
        answer = await self.request("POST", "/v1/sessions", {"client": client})
        self._token = answer["token"]

    async def request(self, method: str, path: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Performs one action."""
        in_query = method in ("GET", "DELETE")
        query = {name: _plain(value) for name, value in (arguments or {}).items()} if in_query else None
        try:
            response = await self._http.request(
                method, path, params=query, json=None if in_query else dict(arguments or {}), headers=self._headers()
            )
        except httpx.HTTPError as error:
            raise AgentisoError("io", f"no response from the daemon: {error}", "run `agentiso daemon status`") from error
        try:
            body = response.json() if response.content else None
        except ValueError:
            body = None
        if response.is_error:
            raise from_body(response.status_code, body)
        return body

    def stream(self, path: str) -> AbstractAsyncContextManager[ClientConnection]:
        """Opens a WebSocket."""
        uri = self._base.replace("http", "ws", 1) + path
        options: dict[str, Any] = {
            "additional_headers": self._headers(),
            "max_size": MAX_MESSAGE,
            "compression": None,
            "ping_interval": None,
            "proxy": None,
        }
        if self._address.socket:
            return websockets_client.unix_connect(self._address.socket, uri, **options)
        return websockets_client.connect(uri, **options)

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
