-- Workspaces that exist for one command. A daemon that finds them when it starts removes them: the daemon that created
-- them was killed.
CREATE TABLE one_shots (
  workspace TEXT PRIMARY KEY REFERENCES workspaces (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
