-- The names of the variables a workspace has, and who set them. Their values are never stored.
CREATE TABLE variables (
  workspace   TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  -- '*' stands for all that the machine has: those that were set before names were kept.
  name        TEXT NOT NULL CHECK (length(name) <= 255),
  -- Set by the user, not by a session: it stays when the workspace gets another owner.
  by_operator INTEGER NOT NULL CHECK (by_operator IN (0, 1)),
  -- Set while there was no machine: what a machine that comes back has under this name is older.
  waiting     INTEGER NOT NULL CHECK (waiting IN (0, 1)),
  PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;
INSERT INTO variables SELECT id, '*', 0, 0 FROM workspaces;

-- Sessions that were removed and whose files are still there.
CREATE TABLE ended_sessions (
  id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TRIGGER session_deleted AFTER DELETE ON sessions BEGIN
  INSERT OR IGNORE INTO ended_sessions (id) VALUES (OLD.id);
END;
