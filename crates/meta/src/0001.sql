-- Ids are UUIDs as text, times are microseconds since 1970, booleans are 0 or 1.

CREATE TABLE disks (
  id        TEXT PRIMARY KEY,
  parent    TEXT REFERENCES disks (id) ON DELETE RESTRICT,
  frozen    INTEGER NOT NULL CHECK (frozen IN (0, 1)),
  span      INTEGER NOT NULL CHECK (span >= 1),
  -- The workspace it was created for. Other workspaces may need it too.
  workspace TEXT,
  CHECK (parent <> id)
) STRICT, WITHOUT ROWID;
CREATE INDEX disks_by_parent ON disks (parent);

CREATE TABLE workspaces (
  id               TEXT PRIMARY KEY,
  name             TEXT NOT NULL UNIQUE,
  image            TEXT NOT NULL,
  image_identity   TEXT NOT NULL,
  vcpus            INTEGER NOT NULL,
  memory_mb        INTEGER NOT NULL,
  disk_gb          INTEGER NOT NULL,
  created          INTEGER NOT NULL,
  state            TEXT NOT NULL CHECK (state IN ('running', 'stopped')),
  stop_reason      TEXT,
  machine          TEXT,
  disk             TEXT NOT NULL UNIQUE REFERENCES disks (id) ON DELETE RESTRICT,
  position         TEXT REFERENCES snapshots (id) ON DELETE SET NULL,
  -- A fork outlives its source, so id and name of the source are copied instead of referenced.
  source_workspace TEXT,
  source_name      TEXT,
  source_snapshot  TEXT REFERENCES snapshots (id) ON DELETE SET NULL,
  forked_at        INTEGER,
  depth            INTEGER NOT NULL,
  from_pool        INTEGER NOT NULL CHECK (from_pool IN (0, 1)),
  tier             TEXT NOT NULL,
  CHECK ((state = 'running') = (machine IS NOT NULL)),
  CHECK (state = 'stopped' OR stop_reason IS NULL),
  CHECK ((source_workspace IS NULL) = (source_name IS NULL)),
  CHECK ((source_workspace IS NULL) = (forked_at IS NULL)),
  CHECK ((source_workspace IS NULL) = (depth = 0)),
  CHECK (source_snapshot IS NULL OR source_workspace IS NOT NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX workspaces_by_position ON workspaces (position);
CREATE INDEX workspaces_by_source_snapshot ON workspaces (source_snapshot);

CREATE TABLE memories (
  id      TEXT PRIMARY KEY,
  base    TEXT NOT NULL,
  created INTEGER NOT NULL,
  pages   INTEGER NOT NULL,
  about   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- No foreign key: a pack outlives the memory image it was written for.
CREATE TABLE memory_packs (
  memory TEXT NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
  pack   TEXT NOT NULL,
  PRIMARY KEY (memory, pack)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_packs_by_pack ON memory_packs (pack);

CREATE TABLE snapshots (
  id          TEXT PRIMARY KEY,
  workspace   TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  name        TEXT NOT NULL,
  description TEXT NOT NULL,
  parent      TEXT REFERENCES snapshots (id) ON DELETE SET NULL,
  created     INTEGER NOT NULL,
  disk        TEXT NOT NULL REFERENCES disks (id) ON DELETE RESTRICT,
  memory      TEXT REFERENCES memories (id) ON DELETE RESTRICT,
  UNIQUE (workspace, name),
  CHECK (parent <> id)
) STRICT, WITHOUT ROWID;
CREATE INDEX snapshots_by_parent ON snapshots (parent);
CREATE INDEX snapshots_by_disk ON snapshots (disk);
CREATE INDEX snapshots_by_memory ON snapshots (memory);

CREATE TABLE pool (
  id             TEXT PRIMARY KEY,
  shape          TEXT NOT NULL,
  image          TEXT NOT NULL,
  image_identity TEXT NOT NULL,
  vcpus          INTEGER NOT NULL,
  memory_mb      INTEGER NOT NULL,
  disk_gb        INTEGER NOT NULL,
  disk           TEXT NOT NULL UNIQUE REFERENCES disks (id) ON DELETE RESTRICT,
  machine        TEXT NOT NULL,
  tier           TEXT NOT NULL,
  created        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX pool_by_shape ON pool (shape, created);

-- Unfinished operations. No foreign key: the workspace may not exist yet, or no longer.
CREATE TABLE operations (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  kind          TEXT NOT NULL,
  workspace     TEXT,
  begun         INTEGER NOT NULL,
  owner_pid     INTEGER NOT NULL,
  owner_started INTEGER NOT NULL,
  intent        TEXT NOT NULL
) STRICT;
CREATE INDEX operations_by_workspace ON operations (workspace);
