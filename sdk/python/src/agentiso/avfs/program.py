"""The program `avfs`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentiso.errors import AgentisoError


class AvfsError(AgentisoError):
    """An error of avfs. `code` is stable and documented in docs/errors.md; `path` is set if it is about a file."""

    def __init__(self, code: str, message: str, remedy: str | None = None, path: str | None = None) -> None:
        super().__init__(code, message, remedy)
        self.path = path


@dataclass(frozen=True)
class Program:
    """Calls `avfs`.

    `binary` is `AVFS_BIN` or found in PATH by default. `home` is the data directory of the installation,
    `AGENTISO_HOME` by default.
    """

    binary: str | None = None
    home: str | None = None

    def path(self) -> str:
        """The path of the program."""
        binary = self.binary or os.environ.get("AVFS_BIN") or "avfs"
        path = shutil.which(binary)
        if path is None:
            raise AvfsError("tool_missing", f"the program {binary!r} was not found", "install agentiso, or set AVFS_BIN")
        return path

    def run(
        self,
        arguments: Sequence[str | os.PathLike[str] | bytes],
        *,
        input: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs `avfs` with these arguments to completion."""
        surroundings = dict(os.environ)
        if self.home is not None:
            surroundings["AGENTISO_HOME"] = self.home
        surroundings.update(env or {})
        return subprocess.run(
            [self.path(), *arguments],
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            env=surroundings,
            check=False,
        )

    def value(self, *arguments: str | os.PathLike[str] | bytes, input: bytes | None = None) -> Any:
        """Runs `avfs --json` and returns its answer. Raises `AvfsError` if it is an error."""
        done = self.run(["--json", *arguments], input=input)
        answer = parsed(done)
        error = answer.get("error") if isinstance(answer, dict) else None
        if isinstance(error, dict) and "code" in error and "kind" not in answer:
            raise AvfsError(
                str(error["code"]), str(error.get("message", "no message")), error.get("remedy"), error.get("path")
            )
        return answer

    def object(self, *arguments: str | bytes, input: bytes | None = None) -> dict[str, Any]:
        """The same for an answer that is an object."""
        answer = self.value(*arguments, input=input)
        if not isinstance(answer, dict):
            raise AvfsError("internal", "avfs did not answer with an object")
        return answer

    def entries(self, *arguments: str | bytes) -> list[dict[str, Any]]:
        """The same for an answer that is a list."""
        answer = self.value(*arguments)
        if not isinstance(answer, list):
            raise AvfsError("internal", "avfs did not answer with a list")
        return answer


def parsed(done: subprocess.CompletedProcess[bytes]) -> Any:
    """The one JSON value that a call printed. Its exit code does not matter: errors are JSON as well."""
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        said = done.stderr.decode(errors="replace").strip() or done.stdout.decode(errors="replace").strip()
        raise AvfsError(
            "internal", f"avfs ended with exit code {done.returncode} and no JSON: {said[:500]}"
        ) from error


def avfs(*args: object) -> Any:
    """Runs `avfs --json` with these arguments and returns what it printed, also if that is an error."""
    done = Program().run(["--json", *(a if isinstance(a, bytes) else str(a) for a in args)])
    return json.loads(done.stdout) if done.stdout else None
