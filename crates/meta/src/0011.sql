-- Requests for approval and their answers. Times are in microseconds, on the clock that time limits are counted on.
CREATE TABLE approvals (
  id             TEXT PRIMARY KEY,
  -- Not a reference: what was granted for all workspaces outlives the one that asked.
  workspace      TEXT NOT NULL,
  workspace_name TEXT NOT NULL,
  -- The session that asked, which may be gone; null for the operator.
  asked_by       TEXT,
  client         TEXT NOT NULL CHECK (length(client) <= 128),
  asked          TEXT NOT NULL CHECK (length(asked) <= 65536),
  digest         BLOB NOT NULL CHECK (length(digest) = 32),
  reason         TEXT NOT NULL CHECK (length(reason) <= 500),
  created        INTEGER NOT NULL,
  until          INTEGER,
  state          TEXT NOT NULL CHECK (state IN ('open', 'granted', 'denied', 'expired', 'used')),
  scope          TEXT CHECK (scope IN ('once', 'workspace', 'always')),
  answered_by    TEXT,
  CHECK (state NOT IN ('granted', 'used') OR scope IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX approvals_by_digest ON approvals (digest);
CREATE INDEX approvals_by_state ON approvals (state, created);
CREATE INDEX approvals_by_end ON approvals (until) WHERE until IS NOT NULL;
-- No two equal requests of a workspace wait at the same time.
CREATE UNIQUE INDEX approvals_open ON approvals (workspace, digest) WHERE state = 'open';
CREATE TRIGGER approvals_of_workspace AFTER DELETE ON workspaces BEGIN
  DELETE FROM approvals WHERE workspace = OLD.id AND NOT (state = 'granted' AND scope = 'always');
END;

-- The sessions that may answer requests of others.
CREATE TABLE approvers (
  session TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
