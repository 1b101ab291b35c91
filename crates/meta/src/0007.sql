-- The names of the variables of a workspace, and who set them. Values are never stored.
CREATE TABLE variables (
  workspace   TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  -- '*' stands for all variables of the machine that were set before names were stored.
  name        TEXT NOT NULL CHECK (length(name) <= 255),
  -- Set by the user, not by a session: kept when the owner of the workspace changes.
  by_operator INTEGER NOT NULL CHECK (by_operator IN (0, 1)),
  -- Set while there was no machine: the value in a resumed machine is older.
  waiting     INTEGER NOT NULL CHECK (waiting IN (0, 1)),
  PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;
INSERT INTO variables SELECT id, '*', 0, 0 FROM workspaces;

-- Removed sessions whose files still exist.
CREATE TABLE ended_sessions (
  id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TRIGGER session_deleted AFTER DELETE ON sessions BEGIN
  INSERT OR IGNORE INTO ended_sessions (id) VALUES (OLD.id);
END;
