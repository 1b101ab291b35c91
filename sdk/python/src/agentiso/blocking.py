"""A synchronous client, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from agentiso.client import AsyncAgentiso
from agentiso.transport import Address
from agentiso.workspace import AsyncWorkspace, ExecResult


T = TypeVar("T")


class Agentiso:
    """A client of one daemon, which is started if it is not running. Use it with `with`, or call `close`."""

    def __init__(
        self, client: str = "agentiso-python", *, address: Address | None = None, session: bool = True
    ) -> None:
        self._stack = ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal())
        try:
            connect = partial(AsyncAgentiso.connect, client, address=address, session=session)
            self._client = self._portal.call(connect)
        except BaseException:
            self._stack.close()
            raise

    def create(
        self,
        name: str | None = None,
        *,
        image: str | None = None,
        vcpus: int | None = None,
        memory_mb: int | None = None,
        disk_gb: int | None = None,
    ) -> Workspace:
        """Creates and starts a workspace."""
        create = partial(
            self._client.create, name, image=image, vcpus=vcpus, memory_mb=memory_mb, disk_gb=disk_gb
        )
        return Workspace(self._portal, self._portal.call(create))

    def get(self, workspace: str) -> Workspace:
        """Finds a workspace by id or name."""
        return Workspace(self._portal, self._portal.call(self._client.get, workspace))

    def list(self) -> list[dict[str, Any]]:
        """Lists all workspaces that this client can see."""
        return self._portal.call(self._client.list)

    def close(self) -> None:
        """Closes the connection. Workspaces keep running."""
        self._portal.call(self._client.close)
        self._stack.close()

    def __enter__(self) -> Agentiso:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Workspace:
    """One workspace."""

    def __init__(self, portal: BlockingPortal, inner: AsyncWorkspace) -> None:
        self._portal = portal
        self._inner = inner
        self.id = inner.id
        self.name = inner.name

    def exec(
        self,
        command: str | Sequence[str],
        *,
        input: bytes | str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        on_output: Callable[[int, bytes], None] | None = None,
    ) -> ExecResult:
        """Runs a command to completion. A string is run by the shell. See `AsyncWorkspace.exec`."""
        run = partial(
            self._inner.exec,
            command,
            input=input,
            cwd=cwd,
            env=env,
            user=user,
            timeout=timeout,
            on_output=on_output,
        )
        return self._portal.call(run)

    def call(self, function: Callable[[AsyncWorkspace], Awaitable[T]]) -> T:
        """Runs a function that takes an `AsyncWorkspace`."""
        return self._portal.call(function, self._inner)

    def read_file(self, path: str, *, user: str | None = None, limit: int | None = None) -> bytes:
        """Reads a file as `user`."""
        return self._portal.call(partial(self._inner.read_file, path, user=user, limit=limit))

    def write_file(self, path: str, content: bytes | str, *, user: str | None = None) -> None:
        """Writes a file as `user`. Creates missing directories."""
        self._portal.call(partial(self._inner.write_file, path, content, user=user))

    def snapshot(self, name: str, *, memory: bool = False) -> dict[str, Any]:
        """Creates a snapshot of the disk and, with `memory`, of the running processes."""
        return self._portal.call(partial(self._inner.snapshot, name, memory=memory))

    def restore(self, snapshot: str) -> dict[str, Any]:
        """Rolls back to a snapshot."""
        return self._portal.call(self._inner.restore, snapshot)

    def fork(self, *, name: str | None = None, snapshot: str | None = None) -> Workspace:
        """Forks the current state of the workspace, or one of its snapshots."""
        fork = partial(self._inner.fork, name=name, snapshot=snapshot)
        return Workspace(self._portal, self._portal.call(fork))

    def info(self) -> dict[str, Any]:
        """Returns all details of the workspace."""
        return self._portal.call(self._inner.info)

    def stop(self) -> None:
        """Stops the machine and keeps its disk."""
        self._portal.call(self._inner.stop)

    def start(self) -> None:
        """Starts the machine."""
        self._portal.call(self._inner.start)

    def destroy(self) -> None:
        """Destroys the workspace with its snapshots."""
        self._portal.call(self._inner.destroy)
