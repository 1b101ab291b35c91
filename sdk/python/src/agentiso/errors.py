"""Errors of the client and the daemon."""

from __future__ import annotations


class AgentisoError(Exception):
    """An error of agentiso. `code` is stable and documented in docs/errors.md."""

    def __init__(self, code: str, message: str, remedy: str | None = None) -> None:
        super().__init__(f"{message} ({code})" + (f"; {remedy}" if remedy else ""))
        self.code = code
        self.message = message
        self.remedy = remedy


class CommandNotStarted(AgentisoError):
    """The guest refused to start a command. `reason` is `not_found`, `not_executable` or None."""

    def __init__(self, code: str, message: str, remedy: str | None, reason: str | None) -> None:
        super().__init__(code, message, remedy)
        self.reason = reason


class CommandTimeout(AgentisoError):
    """A command timed out and was killed with all its child processes."""

    def __init__(self, seconds: float, stdout: bytes, stderr: bytes) -> None:
        super().__init__("timeout", f"the command did not exit within {seconds:g} s")
        self.stdout = stdout
        self.stderr = stderr


def from_body(status: int, body: object) -> AgentisoError:
    """Parses the error in the body of an HTTP response."""
    fields = body.get("error") if isinstance(body, dict) else None
    if not isinstance(fields, dict):
        return AgentisoError("internal", f"the daemon responded with HTTP status {status}")
    return AgentisoError(
        str(fields.get("code", "internal")), str(fields.get("message", "no message")), fields.get("remedy")
    )
