"""A workspace: commands, files, snapshots, forks."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import anyio
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from agentiso.errors import AgentisoError, CommandNotStarted, CommandTimeout
from agentiso.files import READ, WRITE, file_error
from agentiso.transport import Transport

STDOUT = 1
STDERR = 2
# Chunk size and initial window of the daemon's flow control for input.
INPUT_PIECE = 64 * 1024
INPUT_WINDOW = 16 * INPUT_PIECE


@dataclass(frozen=True)
class ExecResult:
    """The result of a command. If a signal killed it, the exit code is 128 plus the signal number, as in a shell."""

    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    @property
    def text(self) -> str:
        """Standard output as text, with invalid UTF-8 replaced."""
        return self.stdout.decode(errors="replace")


class AsyncWorkspace:
    """One workspace."""

    def __init__(self, transport: Transport, facts: Mapping[str, Any]) -> None:
        self._transport = transport
        self.id: str = facts.get("workspace_id") or facts["id"]
        self.name: str = facts["name"]

    async def exec(
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
        """Runs a command to completion. A string is run by the shell.

        All output is returned; `on_output` also receives it as it arrives, with 1 for stdout and 2 for stderr. After
        `timeout` seconds the command is killed with all its child processes, and `CommandTimeout` is raised.
        Cancelling the call kills the command.
        """
        data = input.encode() if isinstance(input, str) else input
        spec = {
            "argv": ["/bin/sh", "-c", command] if isinstance(command, str) else list(command),
            "env": dict(env or {}),
            "workdir": cwd,
            "user": user,
            "stdin": data is not None,
            "timeout_ms": None if timeout is None else max(1, int(timeout * 1000)),
        }
        outputs = {STDOUT: bytearray(), STDERR: bytearray()}
        async with self._transport.stream(f"/v1/workspaces/{quote(self.id)}/exec/stream") as socket:
            await socket.send(json.dumps(spec))
            window = _Window()
            async with anyio.create_task_group() as tasks:
                if data is not None:
                    tasks.start_soon(_feed, socket, data, window)
                end = await _follow(socket, window, outputs, on_output)
                tasks.cancel_scope.cancel()
        stdout, stderr = (bytes(outputs[channel]) for channel in (STDOUT, STDERR))
        if isinstance(end, AgentisoError):
            raise end
        if end["timed_out"]:
            raise CommandTimeout(timeout or 0, stdout, stderr)
        return ExecResult(end["code"] if end["code"] is not None else 128 + end["signal"], stdout, stderr)

    async def read_file(self, path: str, *, user: str | None = None, limit: int | None = None) -> bytes:
        """Reads a file as `user`. A file longer than `limit` raises `FileTooLarge`."""
        done = await self.exec(["/bin/sh", "-c", READ, "read", path, str(limit or 0)], user=user)
        if not done.ok:
            raise file_error(done.exit_code, path)
        return done.stdout

    async def write_file(self, path: str, content: bytes | str, *, user: str | None = None) -> None:
        """Writes a file as `user`. Creates missing directories."""
        argv = ["/bin/sh", "-c", WRITE, "write", path, posixpath.dirname(path) or "."]
        done = await self.exec(argv, input=content, user=user)
        if not done.ok:
            raise file_error(done.exit_code, path)

    async def snapshot(self, name: str, *, memory: bool = False) -> dict[str, Any]:
        """Creates a snapshot of the disk and, with `memory`, of the running processes."""
        return await self._post("snapshots", {"name": name, "include_memory": memory})

    async def restore(self, snapshot: str) -> dict[str, Any]:
        """Rolls back to a snapshot."""
        return await self._post(f"snapshots/{quote(snapshot, safe='')}/restore", {})

    async def fork(self, *, name: str | None = None, snapshot: str | None = None) -> AsyncWorkspace:
        """Forks the current state of the workspace, or one of its snapshots."""
        asked = {"new_name": name, "snapshot_name": snapshot}
        made = await self._post("fork", {key: value for key, value in asked.items() if value is not None})
        return AsyncWorkspace(self._transport, made)

    async def info(self) -> dict[str, Any]:
        """Returns all details of the workspace."""
        return await self._transport.request("GET", f"/v1/workspaces/{self.id}")

    async def stop(self) -> None:
        """Stops the machine and keeps its disk."""
        await self._post("stop", {})

    async def start(self) -> None:
        """Starts the machine."""
        await self._post("start", {})

    async def destroy(self) -> None:
        """Destroys the workspace with its snapshots."""
        await self._transport.request("DELETE", f"/v1/workspaces/{self.id}")

    async def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return await self._transport.request("POST", f"/v1/workspaces/{self.id}/{path}", body)


class _Window:
    """How much more input the daemon accepts."""

    def __init__(self) -> None:
        self._room = INPUT_WINDOW
        self._changed = anyio.Event()

    async def take(self, size: int) -> None:
        while self._room < size:
            self._changed = anyio.Event()
            await self._changed.wait()
        self._room -= size

    def give_back(self, size: int) -> None:
        self._room += size
        self._changed.set()


async def _follow(
    socket: ClientConnection,
    window: _Window,
    outputs: dict[int, bytearray],
    on_output: Callable[[int, bytes], None] | None,
) -> dict[str, Any] | AgentisoError:
    """Collects output until the command exits. Returns its exit status, or the error if it did not start."""
    async for message in socket:
        if isinstance(message, bytes):
            channel, piece = message[0], message[1:]
            outputs[channel].extend(piece)
            if on_output is not None:
                on_output(channel, piece)
            continue
        word = json.loads(message)
        if "taken" in word:
            window.give_back(word["taken"])
        elif "exit" in word:
            return word["exit"]
        elif "error" in word:
            return _not_started(word["error"])
    return AgentisoError("io", "the connection was lost while the command was running", "run `agentiso daemon status`")


async def _feed(socket: ClientConnection, data: bytes, window: _Window) -> None:
    try:
        for start in range(0, len(data), INPUT_PIECE):
            piece = data[start : start + INPUT_PIECE]
            await window.take(len(piece))
            await socket.send(piece)
        await socket.send(json.dumps({"eof": True}))
    except ConnectionClosed:
        # The command exited without reading all input; `_follow` gets its exit status.
        return


def _not_started(fields: Mapping[str, Any]) -> CommandNotStarted:
    return CommandNotStarted(
        fields.get("code", "internal"), fields.get("message", ""), fields.get("remedy"), fields.get("refused")
    )
