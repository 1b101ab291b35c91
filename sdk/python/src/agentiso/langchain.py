"""A sandbox for LangChain's deepagents: `create_deep_agent(backend=AgentisoSandbox.create())`."""

from __future__ import annotations

import posixpath
from functools import partial

import anyio.to_thread
from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

from agentiso.blocking import Agentiso, Workspace
from agentiso.errors import CommandNotStarted, CommandTimeout
from agentiso.users import make_user

# Default timeout of a command, in seconds.
DEFAULT_TIMEOUT = 30 * 60


class AgentisoSandbox(BaseSandbox):
    """A workspace in which commands run as an ordinary user."""

    def __init__(self, client: Agentiso, workspace: Workspace, user: str, home: str) -> None:
        self._client = client
        self._workspace = workspace
        self._user = user
        self._home = home

    @classmethod
    def create(cls, *, image: str | None = None, user: str = "agent") -> AgentisoSandbox:
        """Creates a workspace with an ordinary user in it."""
        client = Agentiso("langchain")
        try:
            workspace = client.create(image=image)
            try:
                home = workspace.call(partial(make_user, name=user))
            except BaseException:
                workspace.destroy()
                raise
        except BaseException:
            client.close()
            raise
        return cls(client, workspace, user, home)

    def close(self) -> None:
        """Removes the workspace."""
        try:
            self._workspace.destroy()
        finally:
            self._client.close()

    @property
    def id(self) -> str:
        return self._workspace.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        pieces: list[bytes] = []
        limit = DEFAULT_TIMEOUT if timeout is None else timeout or None
        try:
            done = self._workspace.exec(
                command,
                cwd=self._home,
                user=self._user,
                timeout=limit,
                on_output=lambda _, piece: pieces.append(piece),
            )
        except CommandTimeout as error:
            output = b"".join(pieces).decode(errors="replace")
            return ExecuteResponse(output=f"{output}\n{error.message}", exit_code=124, truncated=False)
        except CommandNotStarted as error:
            return ExecuteResponse(output=error.message, exit_code=127, truncated=False)
        output = b"".join(pieces).decode(errors="replace")
        return ExecuteResponse(output=output, exit_code=done.exit_code, truncated=False)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:  # noqa: ASYNC109
        return await anyio.to_thread.run_sync(partial(self.execute, command, timeout=timeout))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._upload(path, content)) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    def _upload(self, path: str, content: bytes) -> str | None:
        if not posixpath.isabs(path):
            return "invalid_path"
        try:
            self._workspace.write_file(path, content, user=self._user)
        except OSError as error:
            return _word(error)
        return None

    def _download(self, path: str) -> FileDownloadResponse:
        if not posixpath.isabs(path):
            return FileDownloadResponse(path=path, error="invalid_path")
        try:
            content = self._workspace.read_file(path, user=self._user)
        except OSError as error:
            return FileDownloadResponse(path=path, error=_word(error))
        return FileDownloadResponse(path=path, content=content)


def _word(error: OSError) -> str:
    """Converts an error to its name in deepagents."""
    if isinstance(error, FileNotFoundError):
        return "file_not_found"
    if isinstance(error, IsADirectoryError):
        return "is_directory"
    if isinstance(error, PermissionError):
        return "permission_denied"
    return str(error)
