"""One vault."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from agentiso.avfs.envelope import Envelope
from agentiso.avfs.exec import Checkpoint, exec_arguments, run_envelope, stream_envelope
from agentiso.avfs.program import AvfsError, Program
from agentiso.avfs.session import Session


class AVFS:
    """A vault. It need not exist: `AVFS.create` makes one.

    Methods return the parsed JSON of the command of the same name (docs/schemas), unless they say otherwise.
    """

    def __init__(self, vault: str, *, binary: str | None = None, home: str | None = None) -> None:
        self.vault = vault
        self.program = Program(binary, home)

    @classmethod
    def create(cls, vault: str, *, binary: str | None = None, home: str | None = None) -> AVFS:
        """Creates a vault."""
        one = cls(vault, binary=binary, home=home)
        one.program.object("vault", "create", "--", vault)
        return one

    @staticmethod
    def list_vaults(*, binary: str | None = None, home: str | None = None) -> list[dict[str, Any]]:
        """Lists all vaults."""
        return Program(binary, home).entries("vault", "list")

    def _object(self, *arguments: str, input: bytes | None = None) -> dict[str, Any]:
        return self.program.object(f"--vault={self.vault}", *arguments, input=input)

    def _entries(self, *arguments: str) -> list[dict[str, Any]]:
        return self.program.entries(f"--vault={self.vault}", *arguments)

    # Vaults.

    def fork(
        self, name: str, *, checkpoint: str | None = None, ttl: str | None = None, description: str | None = None
    ) -> AVFS:
        """Forks the vault, as it is now or was at a checkpoint. With `ttl` (`"2h"`) the fork is removed after that time."""
        flags = [f"--at={checkpoint}"] if checkpoint is not None else []
        flags += [f"--ttl={ttl}"] if ttl is not None else []
        flags += [f"--description={description}"] if description is not None else []
        self.program.object("vault", "fork", *flags, "--", self.vault, name)
        return AVFS(name, binary=self.program.binary, home=self.program.home)

    def info(self) -> dict[str, Any]:
        """Details of the vault."""
        return self.program.object("vault", "info", "--", self.vault)

    def remove(self, *, force: bool = False) -> None:
        """Removes the vault with its history. Its forks are kept."""
        self.program.object("vault", "rm", "--yes", *(["--force"] if force else []), "--", self.vault)

    def rename(self, name: str) -> None:
        """Renames the vault."""
        self.program.object("vault", "rename", "--", self.vault, name)
        self.vault = name

    def merge(
        self,
        source: str,
        *,
        on_conflict: Literal["stop", "ours", "theirs", "markers"] = "stop",
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Merges another vault, usually a fork of this one, into this one. `applied` says whether it was changed."""
        return self._object("merge", f"--on-conflict={on_conflict}", *(["--dry-run"] if dry_run else []), "--", source)

    # Commands.

    def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        readonly: bool = False,
        timeout: float | None = None,
        checkpoint: Checkpoint | None = None,
        fork: str | None = None,
        env: Mapping[str, str] | None = None,
        input: bytes | str | None = None,
        approve: str | None = None,
        dry_run: bool = False,
        on_output: Callable[[Literal["stdout", "stderr"], str], None] | None = None,
    ) -> Envelope:
        """Runs a command in the vault and returns its envelope, whatever became of the command.

        A string is a line for a shell, a list is executed directly. `timeout` is in seconds; 0 is no limit, None five
        minutes. `fork` is a name, or "auto". `on_output` receives output as it arrives, and cannot be combined with
        `input`.
        """
        arguments = exec_arguments(
            command,
            cwd=cwd,
            readonly=readonly,
            timeout=timeout,
            checkpoint=checkpoint,
            fork=fork,
            env=env,
            stdin=input is not None,
            approve=approve,
            dry_run=dry_run,
        )
        verb = [f"--vault={self.vault}", "proxy", "exec"]
        if on_output is None:
            return run_envelope(self.program, [*verb, *arguments], input)
        if input is not None:
            raise ValueError("on_output and input cannot be combined")
        return stream_envelope(self.program, [*verb, "--stream", *arguments], on_output)

    proxy_exec = exec

    def session(self, *, readonly: bool = False) -> Session:
        """Starts a sandbox that stays, in which commands start faster."""
        return Session.start(self.program, self.vault, readonly=readonly)

    def explain(self, command: str | Sequence[str]) -> dict[str, Any]:
        """Shows what the policy decides about a command, and why. Nothing is run."""
        words = [f"--shell={command}"] if isinstance(command, str) else ["--", *command]
        return self._object("policy", "explain", *words)

    # Files.

    def write(self, path: str, content: bytes | str) -> dict[str, Any]:
        """Writes a file. Directories above it are made."""
        data = content.encode() if isinstance(content, str) else content
        return self._object("write", "--stdin", "--parents", "--", path, input=data)

    def append(self, path: str, content: bytes | str) -> dict[str, Any]:
        """Appends to a file."""
        data = content.encode() if isinstance(content, str) else content
        return self._object("append", "--stdin", "--", path, input=data)

    def read(self, path: str, *, version: int | None = None) -> bytes:
        """The bytes of a file, now or at one of its versions."""
        flags = [f"--version={version}"] if version is not None else []
        done = self.program.run([f"--vault={self.vault}", "cat", "--raw", *flags, "--", path])
        if done.returncode != 0:
            # The same call again says what is wrong in JSON.
            self._object("cat", *flags, "--", path)
            raise AvfsError("internal", f"could not read {path}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def cat(self, path: str, *, version: int | None = None) -> str:
        """The text of a file. Bytes that are not UTF-8 are replaced."""
        return self.read(path, version=version).decode(errors="replace")

    def ls(self, path: str = "/") -> list[dict[str, Any]]:
        """The entries of a directory."""
        return self._entries("ls", "--", path)

    def stat(self, path: str) -> dict[str, Any]:
        """Details of a file or directory."""
        return self._object("stat", "--", path)

    def mkdir(self, path: str, *, parents: bool = False) -> dict[str, Any]:
        """Makes a directory."""
        return self._object("mkdir", *(["--parents"] if parents else []), "--", path)

    def rm(self, path: str, *, recursive: bool = False, force: bool = False) -> dict[str, Any]:
        """Removes a file, or with `recursive` a directory."""
        flags = [flag for flag, given in (("--recursive", recursive), ("--force", force)) if given]
        return self._object("rm", *flags, "--", path)

    def cp(self, source: str, destination: str, *, recursive: bool = False, force: bool = False) -> dict[str, Any]:
        """Copies a file, or with `recursive` a directory."""
        flags = [flag for flag, given in (("--recursive", recursive), ("--force", force)) if given]
        return self._object("cp", *flags, "--", source, destination)

    def mv(self, source: str, destination: str, *, force: bool = False) -> dict[str, Any]:
        """Moves a file or directory."""
        return self._object("mv", *(["--force"] if force else []), "--", source, destination)

    def tree(self, path: str = "/", *, level: int | None = None) -> dict[str, Any]:
        """The files below a directory, nested."""
        return self._object("tree", *([f"--level={level}"] if level is not None else []), "--", path)

    def find(self, path: str = "/", *, name: str | None = None) -> dict[str, Any]:
        """Finds files."""
        return self._object("find", *([f"--name={name}"] if name is not None else []), "--", path)

    def grep(self, pattern: str, path: str = "/", *, ignore_case: bool = False) -> dict[str, Any]:
        """Finds lines that match a regular expression."""
        return self._object("grep", *(["--ignore-case"] if ignore_case else []), "--", pattern, path)

    def search(self, query: str, *, limit: int = 20) -> dict[str, Any]:
        """Finds files by words."""
        return self._object("search", f"--limit={limit}", "--", query)

    # History.

    def log(self, path: str) -> list[dict[str, Any]]:
        """The versions of a file, newest first."""
        return self._entries("log", "--", path)

    def checkout(self, path: str, version: int) -> dict[str, Any]:
        """Gives a file the content of one of its versions."""
        return self._object("checkout", f"--version={version}", "--", path)

    def revert(self, path: str) -> dict[str, Any]:
        """Gives a file the content it had before its last change."""
        return self._object("revert", "--", path)

    def checkpoint_save(self, name: str | None = None, *, description: str | None = None) -> dict[str, Any]:
        """Saves a checkpoint."""
        flags = [f"--description={description}"] if description is not None else []
        return self._object("checkpoint", "save", *flags, *(["--", name] if name is not None else []))

    def checkpoint_list(self) -> list[dict[str, Any]]:
        """Lists checkpoints, oldest first."""
        listed: list[dict[str, Any]] = self._object("checkpoint", "list")["snapshots"]
        return listed

    def checkpoint_restore(self, name: str, *, path: str | None = None) -> dict[str, Any]:
        """Restores a checkpoint, whole or one path of it."""
        flags = [f"--path={path}"] if path is not None else []
        return self._object("checkpoint", "restore", *flags, "--", name)

    def checkpoint_delete(self, name: str) -> dict[str, Any]:
        """Removes a checkpoint."""
        return self._object("checkpoint", "rm", "--", name)

    def checkpoint_diff(self, before: str, after: str | None = None) -> dict[str, Any]:
        """What changed between two checkpoints, or since one."""
        return self._object("checkpoint", "diff", "--", before, *([after] if after is not None else []))

    # Host.

    def import_(self, host: str | os.PathLike[str], path: str = "/") -> dict[str, Any]:
        """Copies a directory or file of the host into the vault."""
        return self._object("import", "--recursive", "--", os.fspath(host), path)

    def export(self, path: str, host: str | os.PathLike[str], *, overwrite: bool = False) -> dict[str, Any]:
        """Copies a directory or file of the vault to the host."""
        flags = ["--recursive", *(["--overwrite"] if overwrite else [])]
        return self._object("export", *flags, "--", path, os.fspath(host))

    # Upkeep.

    def stats(self) -> dict[str, Any]:
        """Counts and sizes."""
        return self._object("stats")

    def gc(self, *, dry_run: bool = False) -> dict[str, Any]:
        """Removes what no vault needs."""
        return self.program.object("gc", *(["--dry-run"] if dry_run else []))

    def compact(self) -> dict[str, Any]:
        """Gives space back to the file system."""
        return self.program.object("compact")
