-- Sessions, the settings of workspaces, idempotency keys, and the timeline.

CREATE TABLE sessions (
  id          TEXT PRIMARY KEY,
  kind        TEXT NOT NULL CHECK (kind IN ('mcp', 'http', 'local')),
  client      TEXT NOT NULL CHECK (length(client) <= 128),
  -- The token itself is never stored.
  token_hash  BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
  created     INTEGER NOT NULL,
  last_active INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A workspace without settings has no row.
CREATE TABLE settings (
  workspace      TEXT PRIMARY KEY REFERENCES workspaces (id) ON DELETE CASCADE,
  owner          TEXT REFERENCES sessions (id) ON DELETE SET NULL,
  labels         TEXT NOT NULL DEFAULT '{}',
  expires_at     INTEGER,
  idle_stop_secs INTEGER CHECK (idle_stop_secs >= 0),
  last_used      INTEGER NOT NULL,
  suspended      TEXT REFERENCES snapshots (id) ON DELETE SET NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX settings_by_owner ON settings (owner);
CREATE INDEX settings_by_suspended ON settings (suspended);

CREATE TABLE forwards (
  workspace  TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  guest_port INTEGER NOT NULL CHECK (guest_port BETWEEN 1 AND 65535),
  host_port  INTEGER NOT NULL UNIQUE CHECK (host_port BETWEEN 1 AND 65535),
  created    INTEGER NOT NULL,
  PRIMARY KEY (workspace, guest_port)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
  session      TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  key          TEXT NOT NULL CHECK (length(key) <= 255),
  request_hash BLOB NOT NULL CHECK (length(request_hash) = 32),
  -- NULL while the request is in progress.
  outcome      TEXT,
  created      INTEGER NOT NULL,
  PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;

-- No foreign keys: entries outlive their workspaces and sessions.
CREATE TABLE timeline (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  at             INTEGER NOT NULL,
  workspace      TEXT,
  workspace_name TEXT,
  session        TEXT,
  client         TEXT NOT NULL CHECK (length(client) <= 128),
  action         TEXT NOT NULL,
  detail         TEXT NOT NULL CHECK (octet_length(detail) <= 4096),
  duration_us    INTEGER NOT NULL CHECK (duration_us >= 0),
  outcome        TEXT NOT NULL,
  changed        TEXT
) STRICT;
CREATE INDEX timeline_by_workspace ON timeline (workspace);
