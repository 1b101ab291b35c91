"""The envelope of a command. docs/schemas/proxy_exec_result.json describes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal[
    "done",
    "failed",
    "denied",
    "approval_required",
    "timed_out",
    "not_found",
    "killed",
    "planned",
    "invalid_request",
    "internal_error",
]
Action = Literal["allow", "allow_with_checkpoint", "require_approval", "deny"]
ChangeKind = Literal["created", "modified", "deleted", "renamed"]


@dataclass(frozen=True)
class Request:
    """What was asked for. `timeout_ms` is None if there was no limit."""

    vault: str | None
    cwd: str
    readonly: bool
    command: str
    command_mode: Literal["argv", "shell"]
    argv: list[str]
    checkpoint_mode: Literal["auto", "always", "never"]
    timeout_ms: int | None
    fork: str | None
    env: list[str]
    stdin: bool
    dry_run: bool
    mountpoint: str | None
    keep_mount: bool
    stream: bool


@dataclass(frozen=True)
class Decision:
    """What the policy decided."""

    action: Action
    categories: list[str]
    reason: str | None
    rule: str


@dataclass(frozen=True)
class Change:
    """A changed file."""

    path: str
    kind: ChangeKind
    type: str
    old_path: str | None
    size_before: int | None
    size_after: int | None
    hash_before: str | None
    hash_after: str | None
    mode_before: str | None
    mode_after: str | None
    path_bytes: str | None = None


@dataclass(frozen=True)
class Conflict:
    """A change that could not be merged with others made meanwhile."""

    path: str
    reason: str


@dataclass(frozen=True)
class Capture:
    """What happened to an output stream. `file` has all of it if it was too long for the envelope."""

    bytes: int
    truncated: bool
    omitted_bytes: int
    encoding: Literal["utf-8", "lossy"]
    file: str | None
    file_bytes: int
    complete: bool


@dataclass(frozen=True)
class Fork:
    """The fork that a command ran in."""

    name: str
    source: str
    created: bool


@dataclass(frozen=True)
class Usage:
    """What a command used."""

    user_ms: int
    system_ms: int
    max_rss_bytes: int


@dataclass(frozen=True)
class Protection:
    """One protection of the sandbox."""

    name: str
    state: Literal["enforced", "degraded", "unavailable"]
    detail: str | None


@dataclass(frozen=True)
class Enforcement:
    """What confined a command."""

    complete: bool
    mount: str
    network: str
    protections: list[Protection]


@dataclass(frozen=True)
class Approval:
    """A request for approval. `token` is for `exec(..., approve=token)` after the owner has granted it."""

    token: str
    state: str
    expires_at: str | None
    grant_with: str
    digest: str


@dataclass(frozen=True)
class Error:
    """What went wrong, unless the command itself did."""

    code: str
    message: str
    remedy: str | None


@dataclass(frozen=True)
class Result:
    """What became of a command."""

    outcome: Outcome
    state: str
    vault: str
    workspace: str
    fork: Fork | None
    checkpoint: str | None
    mountpoint: str
    cwd: str
    command: str
    argv: list[str]
    exit_code: int
    exit_status: int
    signal: int | None
    signal_name: str | None
    timed_out: bool
    stdout: str
    stderr: str
    stdout_capture: Capture
    stderr_capture: Capture
    readonly: bool
    kept_mounted: bool
    duration_ms: int
    total_ms: int
    changed_files: list[str]
    changes: list[Change]
    changes_total: int
    changes_truncated: bool
    conflicts: list[Conflict]
    decision: Decision
    approval: Approval | None
    usage: Usage | None
    enforcement: Enforcement | None
    error: Error | None
    warnings: list[str]


@dataclass(frozen=True)
class Envelope:
    """What every command answers with, whatever became of it. `raw` is the JSON as it was printed."""

    schema_version: int
    kind: str
    success: bool
    request: Request
    result: Result
    raw: dict[str, Any] = field(repr=False, compare=False)

    @property
    def outcome(self) -> Outcome:
        """What became of the command."""
        return self.result.outcome

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Envelope:
        """Reads an envelope. Fields that are not known are only in `raw`."""
        request, result = raw["request"], raw["result"]
        timeout = request["timeout"]
        return cls(
            schema_version=raw["schema_version"],
            kind=raw["kind"],
            success=raw["success"],
            request=_known(
                Request, {**request, "timeout_ms": None if timeout == "none" else timeout["millis"]}
            ),
            result=_known(
                Result,
                {
                    **result,
                    "fork": _maybe(Fork, result["fork"]),
                    "stdout_capture": _known(Capture, result["stdout_capture"]),
                    "stderr_capture": _known(Capture, result["stderr_capture"]),
                    "changes": [_known(Change, one) for one in result["changes"]],
                    "conflicts": [_known(Conflict, one) for one in result["conflicts"]],
                    "decision": _known(Decision, result["decision"]),
                    "approval": _maybe(Approval, result["approval"]),
                    "usage": _maybe(Usage, result["usage"]),
                    "enforcement": _enforcement(result["enforcement"]),
                    "error": _maybe(Error, result["error"]),
                },
            ),
            raw=raw,
        )


def _known(kind: Any, fields: dict[str, Any]) -> Any:
    return kind(**{name: value for name, value in fields.items() if name in kind.__dataclass_fields__})


def _maybe(kind: Any, fields: dict[str, Any] | None) -> Any:
    return None if fields is None else _known(kind, fields)


def _enforcement(fields: dict[str, Any] | None) -> Enforcement | None:
    if fields is None:
        return None
    return Enforcement(
        complete=fields["complete"],
        mount=fields["mount"],
        network=fields["network"],
        protections=[_known(Protection, one) for one in fields["protections"]],
    )
