"""Reads and writes files with a command in the guest, so that the user's permissions apply."""

from __future__ import annotations

import errno
import os

IS_DIRECTORY = 91
NOT_FOUND = 92
DENIED = 93
TOO_LARGE = 94

# Arguments: the path, and the maximum number of bytes to read, or 0 for no limit.
READ = f"""
if [ -d "$1" ]; then exit {IS_DIRECTORY}; fi
if [ ! -e "$1" ]; then exit {NOT_FOUND}; fi
if [ ! -r "$1" ]; then exit {DENIED}; fi
if [ "$2" -gt 0 ] && [ "$(wc -c <"$1")" -gt "$2" ]; then exit {TOO_LARGE}; fi
exec cat -- "$1"
"""

# Arguments: the path, and its directory. The file is opened, not replaced, so that it keeps its mode and owner.
WRITE = f"""
if [ -d "$1" ]; then exit {IS_DIRECTORY}; fi
mkdir -p -- "$2" 2>/dev/null || exit {DENIED}
if [ -e "$1" ] && [ ! -w "$1" ]; then exit {DENIED}; fi
if [ ! -e "$1" ] && [ ! -w "$2" ]; then exit {DENIED}; fi
exec cat >"$1"
"""


class FileTooLarge(OSError):
    """A file is larger than the caller's limit."""


def file_error(exit_code: int, path: str) -> OSError:
    """Converts an exit code of `READ` or `WRITE` to an error."""

    def of(number: int) -> OSError:
        return OSError(number, os.strerror(number), path)

    if exit_code == TOO_LARGE:
        return FileTooLarge(errno.EFBIG, os.strerror(errno.EFBIG), path)
    known = {IS_DIRECTORY: errno.EISDIR, NOT_FOUND: errno.ENOENT, DENIED: errno.EACCES}
    return of(known.get(exit_code, errno.EIO))
