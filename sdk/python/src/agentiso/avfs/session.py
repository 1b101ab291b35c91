"""A sandbox that stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

from agentiso.avfs.envelope import Envelope
from agentiso.avfs.exec import Checkpoint, exec_arguments, run_envelope
from agentiso.avfs.program import Program


class Session:
    """A sandbox that stays, in which commands start faster. Use it with `with`, or call `end`."""

    def __init__(self, program: Program, id: str, vault: str) -> None:
        self.program = program
        self.id = id
        self.vault = vault

    @classmethod
    def start(cls, program: Program, vault: str, *, readonly: bool = False) -> Session:
        """Starts a session in a vault."""
        flags = ["--readonly"] if readonly else []
        started = program.object(f"--vault={vault}", "session", "start", *flags)
        return cls(program, str(started["session"]), vault)

    def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        timeout: float | None = None,
        checkpoint: Checkpoint | None = None,
        env: Mapping[str, str] | None = None,
        input: bytes | str | None = None,
        approve: str | None = None,
        dry_run: bool = False,
    ) -> Envelope:
        """Runs a command and returns its envelope. See `AVFS.exec`."""
        arguments = exec_arguments(
            command,
            cwd=cwd,
            readonly=False,
            timeout=timeout,
            checkpoint=checkpoint,
            fork=None,
            env=env,
            stdin=input is not None,
            approve=approve,
            dry_run=dry_run,
        )
        return run_envelope(self.program, ["session", "exec", self.id, *arguments], input)

    def end(self) -> None:
        """Ends the session with everything that runs in it."""
        self.program.object("session", "end", "--", self.id)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
