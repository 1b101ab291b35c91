"""The arguments of `avfs proxy exec` and `avfs session exec`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from agentiso.avfs.envelope import Envelope
from agentiso.avfs.program import AvfsError, Program

Checkpoint = Literal["auto", "always", "never"]


def exec_arguments(
    command: str | Sequence[str],
    *,
    cwd: str | None,
    readonly: bool,
    timeout: float | None,
    checkpoint: Checkpoint | None,
    fork: str | None,
    env: Mapping[str, str] | None,
    stdin: bool,
    approve: str | None,
    dry_run: bool,
) -> list[str]:
    """Flags and command. A string is a line for a shell, a list is executed directly."""
    arguments: list[str] = []
    for flag, value in (("--cwd", cwd), ("--checkpoint", checkpoint), ("--fork", fork), ("--approve", approve)):
        if value is not None:
            arguments.append(f"{flag}={value}")
    for flag, given in (("--readonly", readonly), ("--stdin", stdin), ("--dry-run", dry_run)):
        if given:
            arguments.append(flag)
    if timeout is not None:
        arguments.append(f"--timeout={max(1, round(timeout * 1000)) if timeout > 0 else 0}")
    arguments.extend(f"--env={name}={value}" for name, value in (env or {}).items())
    if isinstance(command, str):
        return [*arguments, f"--shell={command}"]
    return [*arguments, "--", *command]


def run_envelope(program: Program, arguments: Sequence[str], input: bytes | str | None) -> Envelope:
    """Runs a command that prints an envelope. Its exit code is not an error."""
    data = input.encode() if isinstance(input, str) else input
    return _envelope(program.value(*arguments, input=data))


def stream_envelope(
    program: Program, arguments: Sequence[str], on_output: Callable[[Literal["stdout", "stderr"], str], None]
) -> Envelope:
    """Runs a command with `--stream`, and passes its output on as it arrives."""
    surroundings = dict(os.environ)
    if program.home is not None:
        surroundings["AGENTISO_HOME"] = program.home
    with subprocess.Popen(
        [program.path(), "--json", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=surroundings,
    ) as process:
        assert process.stdout is not None
        envelope: Envelope | None = None
        for line in process.stdout:
            value = json.loads(line)
            if value.get("kind") == "proxy_exec_output":
                on_output(value["stream"], value["text"])
            else:
                envelope = _envelope(value)
    if envelope is None:
        raise AvfsError("internal", f"avfs ended with exit code {process.returncode} and no envelope")
    return envelope


def _envelope(value: object) -> Envelope:
    if not isinstance(value, dict) or value.get("kind") != "proxy_exec_result":
        raise AvfsError("internal", "avfs did not answer with an envelope")
    if value["schema_version"] != 1:
        raise AvfsError("unsupported", f"the envelope has version {value['schema_version']}", "update this package")
    return Envelope.of(value)
