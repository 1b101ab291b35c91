-- What a workspace may reach, as JSON; null reaches nothing. Its address is free again when the workspace is gone.
ALTER TABLE workspaces ADD COLUMN network TEXT;
ALTER TABLE workspaces ADD COLUMN address TEXT CHECK (address IS NULL OR network IS NOT NULL);
CREATE UNIQUE INDEX workspaces_by_address ON workspaces (address) WHERE address IS NOT NULL;

-- The connections of workspaces, which it outlives.
CREATE TABLE network_log (
  sequence  INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  at        INTEGER NOT NULL,
  entry     TEXT NOT NULL CHECK (length(entry) <= 4096)
) STRICT;
CREATE INDEX network_log_by_workspace ON network_log (workspace, sequence);

-- How far the log of the present router was read.
CREATE TABLE network_router (
  id       INTEGER PRIMARY KEY CHECK (id = 1),
  instance TEXT NOT NULL,
  next     INTEGER NOT NULL
) STRICT;
