"""An ordinary user in a guest."""

from __future__ import annotations

from agentiso.errors import AgentisoError
from agentiso.workspace import AsyncWorkspace

# Argument: the user's name. Prints the home directory.
MAKE_USER = """
set -e
if ! id -u "$1" >/dev/null 2>&1; then
  if command -v useradd >/dev/null; then useradd --create-home --shell /bin/sh "$1"
  else adduser -D "$1"
  fi
fi
getent passwd "$1" 2>/dev/null | cut -d: -f6 || awk -F: -v name="$1" '$1 == name { print $6 }' /etc/passwd
"""


async def make_user(workspace: AsyncWorkspace, name: str) -> str:
    """Creates a user unless it exists. Returns its home directory."""
    done = await workspace.exec(["/bin/sh", "-c", MAKE_USER, "make-user", name], user="root")
    home = done.text.strip()
    if not done.ok or not home.startswith("/"):
        reason = done.stderr.decode(errors="replace").strip()
        raise AgentisoError("guest_failed", f"the user {name!r} could not be created: {reason}")
    return home
