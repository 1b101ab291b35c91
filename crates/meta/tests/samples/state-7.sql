-- A database of format 7, with a suspended workspace. Never to be changed.
PRAGMA foreign_keys = OFF;
BEGIN TRANSACTION;
CREATE TABLE disks (
  id        TEXT PRIMARY KEY,
  parent    TEXT REFERENCES disks (id) ON DELETE RESTRICT,
  frozen    INTEGER NOT NULL CHECK (frozen IN (0, 1)),
  span      INTEGER NOT NULL CHECK (span >= 1),
  -- Whom it was made for: it says nothing about who needs it now.
  workspace TEXT,
  CHECK (parent <> id)
) STRICT, WITHOUT ROWID;
INSERT INTO "disks" VALUES('01900000-0000-7000-8000-0000000000d1',NULL,1,1,'01900000-0000-7000-8000-0000000000a1');
INSERT INTO "disks" VALUES('01900000-0000-7000-8000-0000000000d2','01900000-0000-7000-8000-0000000000d1',1,2,'01900000-0000-7000-8000-0000000000a1');
INSERT INTO "disks" VALUES('01900000-0000-7000-8000-0000000000d3','01900000-0000-7000-8000-0000000000d2',0,1,'01900000-0000-7000-8000-0000000000a1');
INSERT INTO "disks" VALUES('01900000-0000-7000-8000-0000000000d4','01900000-0000-7000-8000-0000000000d1',0,1,'01900000-0000-7000-8000-0000000000a2');
INSERT INTO "disks" VALUES('01900000-0000-7000-8000-0000000000d5',NULL,0,1,NULL);
CREATE TABLE ended_sessions (
  id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TABLE "forwards" (
  host_port  INTEGER NOT NULL PRIMARY KEY CHECK (host_port BETWEEN 1 AND 65535),
  workspace  TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  guest_port INTEGER NOT NULL CHECK (guest_port BETWEEN 1 AND 65535),
  created    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE idempotency (
  session      TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  key          TEXT NOT NULL CHECK (length(key) <= 255),
  request_hash BLOB NOT NULL CHECK (length(request_hash) = 32),
  -- None while the request is at work.
  outcome      TEXT,
  created      INTEGER NOT NULL,
  PRIMARY KEY (session, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE identity (
  one        INTEGER PRIMARY KEY CHECK (one = 1),
  database   TEXT NOT NULL,
  generation INTEGER NOT NULL
) STRICT;
INSERT INTO "identity" VALUES(1,'bc52b992c4c9258eef3ca0e436b3efcc',5);
CREATE TABLE memories (
  id      TEXT PRIMARY KEY,
  base    TEXT NOT NULL,
  created INTEGER NOT NULL,
  pages   INTEGER NOT NULL,
  about   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "memories" VALUES('01900000-0000-7000-8000-0000000000e1','base-1',1767323045678901,99,'{"v":1}');
CREATE TABLE memory_packs (
  memory TEXT NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
  pack   TEXT NOT NULL,
  PRIMARY KEY (memory, pack)
) STRICT, WITHOUT ROWID;
INSERT INTO "memory_packs" VALUES('01900000-0000-7000-8000-0000000000e1','01900000-0000-7000-8000-0000000000e1');
CREATE TABLE operations (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  kind          TEXT NOT NULL,
  workspace     TEXT,
  begun         INTEGER NOT NULL,
  owner_pid     INTEGER NOT NULL,
  owner_started INTEGER NOT NULL,
  intent        TEXT NOT NULL
) STRICT;
INSERT INTO "operations" VALUES(7,'fork','01900000-0000-7000-8000-0000000000a2',1767323045678906,321,654,'{"undo":[]}');
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
INSERT INTO "pool" VALUES('01900000-0000-7000-8000-0000000000a3','shape-1','debian','blake3:01',1,256,10,'01900000-0000-7000-8000-0000000000d5','{"pid":322}','warm',1767323045678905);
CREATE TABLE sessions (
  id          TEXT PRIMARY KEY,
  kind        TEXT NOT NULL CHECK (kind IN ('mcp', 'http', 'local')),
  client      TEXT NOT NULL CHECK (length(client) <= 128),
  -- The token itself is never stored.
  token_hash  BLOB NOT NULL UNIQUE CHECK (length(token_hash) = 32),
  created     INTEGER NOT NULL,
  last_active INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE settings (
  workspace      TEXT PRIMARY KEY REFERENCES workspaces (id) ON DELETE CASCADE,
  owner          TEXT REFERENCES sessions (id) ON DELETE SET NULL,
  labels         TEXT NOT NULL DEFAULT '{}',
  expires_at     INTEGER,
  idle_stop_secs INTEGER CHECK (idle_stop_secs >= 0),
  last_used      INTEGER NOT NULL,
  suspended      TEXT REFERENCES snapshots (id) ON DELETE SET NULL
, restart INTEGER NOT NULL DEFAULT 0 CHECK (restart IN (0, 1)), stay_stopped INTEGER NOT NULL DEFAULT 0 CHECK (stay_stopped IN (0, 1)), next_vcpus INTEGER CHECK (next_vcpus >= 1), next_memory_mb INTEGER CHECK (next_memory_mb >= 1)) STRICT, WITHOUT ROWID;
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
INSERT INTO "snapshots" VALUES('01900000-0000-7000-8000-0000000000b1','01900000-0000-7000-8000-0000000000a1','s1','clean',NULL,1767323045678902,'01900000-0000-7000-8000-0000000000d1',NULL);
INSERT INTO "snapshots" VALUES('01900000-0000-7000-8000-0000000000b2','01900000-0000-7000-8000-0000000000a1','s2','','01900000-0000-7000-8000-0000000000b1',1767323045678903,'01900000-0000-7000-8000-0000000000d2','01900000-0000-7000-8000-0000000000e1');
INSERT INTO "snapshots" VALUES('01900000-0000-7000-8000-0000000000e1','01900000-0000-7000-8000-0000000000a1','suspended','the last moment before it was suspended','01900000-0000-7000-8000-0000000000b2',1767323045679000,'01900000-0000-7000-8000-0000000000d1','01900000-0000-7000-8000-0000000000e1');
INSERT INTO "snapshots" VALUES('01900000-0000-7000-8000-0000000000e2','01900000-0000-7000-8000-0000000000a1','suspended-2','the last moment before it was suspended','01900000-0000-7000-8000-0000000000b2',1767323045679001,'01900000-0000-7000-8000-0000000000d1','01900000-0000-7000-8000-0000000000e1');
INSERT INTO "snapshots" VALUES('01900000-0000-7000-8000-0000000000e3','01900000-0000-7000-8000-0000000000a1','suspended-by-hand','','01900000-0000-7000-8000-0000000000b2',1767323045679002,'01900000-0000-7000-8000-0000000000d1',NULL);
INSERT INTO "snapshots" VALUES('01900000-0000-7000-8000-0000000000e4','01900000-0000-7000-8000-0000000000a1','suspend','','01900000-0000-7000-8000-0000000000b2',1767323045679003,'01900000-0000-7000-8000-0000000000d1',NULL);
CREATE TABLE stale_records (
  workspace  TEXT PRIMARY KEY,
  generation INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "stale_records" VALUES('01900000-0000-7000-8000-0000000000a1',5);
INSERT INTO "stale_records" VALUES('01900000-0000-7000-8000-0000000000a2',1);
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
INSERT INTO "variables" VALUES('01900000-0000-7000-8000-0000000000a1','*',0,0);
INSERT INTO "variables" VALUES('01900000-0000-7000-8000-0000000000a2','*',0,0);
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
  -- A fork outlives its source, so the source is told by id and name and is no reference.
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
INSERT INTO "workspaces" VALUES('01900000-0000-7000-8000-0000000000a1','source','debian','blake3:01',2,512,10,1767323045678901,'running',NULL,'{"pid":321}','01900000-0000-7000-8000-0000000000d3','01900000-0000-7000-8000-0000000000b2',NULL,NULL,NULL,NULL,0,0,'template');
INSERT INTO "workspaces" VALUES('01900000-0000-7000-8000-0000000000a2','fork','debian','blake3:01',2,512,10,1767323045678904,'stopped','crashed',NULL,'01900000-0000-7000-8000-0000000000d4','01900000-0000-7000-8000-0000000000b1','01900000-0000-7000-8000-0000000000a1','source','01900000-0000-7000-8000-0000000000b1',1767323045678904,1,0,'fork');
CREATE INDEX disks_by_parent ON disks (parent);
CREATE INDEX workspaces_by_position ON workspaces (position);
CREATE INDEX workspaces_by_source_snapshot ON workspaces (source_snapshot);
CREATE INDEX memory_packs_by_pack ON memory_packs (pack);
CREATE INDEX snapshots_by_parent ON snapshots (parent);
CREATE INDEX snapshots_by_disk ON snapshots (disk);
CREATE INDEX snapshots_by_memory ON snapshots (memory);
CREATE INDEX pool_by_shape ON pool (shape, created);
CREATE INDEX operations_by_workspace ON operations (workspace);
CREATE INDEX settings_by_owner ON settings (owner);
CREATE INDEX settings_by_suspended ON settings (suspended);
CREATE INDEX timeline_by_workspace ON timeline (workspace);
CREATE TRIGGER workspace_inserted AFTER INSERT ON workspaces BEGIN
  UPDATE identity SET generation = generation + 1;
  DELETE FROM stale_records WHERE workspace = NEW.id;
  INSERT INTO stale_records SELECT NEW.id, generation FROM identity;
END;
CREATE TRIGGER workspace_updated
AFTER UPDATE OF name, image, image_identity, vcpus, memory_mb, disk_gb, disk, position, source_snapshot ON workspaces
BEGIN
  UPDATE identity SET generation = generation + 1;
  DELETE FROM stale_records WHERE workspace = NEW.id;
  INSERT INTO stale_records SELECT NEW.id, generation FROM identity;
END;
CREATE TRIGGER workspace_deleted AFTER DELETE ON workspaces BEGIN
  UPDATE identity SET generation = generation + 1;
  DELETE FROM stale_records WHERE workspace = OLD.id;
  INSERT INTO stale_records SELECT OLD.id, generation FROM identity;
END;
CREATE TRIGGER snapshot_inserted AFTER INSERT ON snapshots BEGIN
  UPDATE identity SET generation = generation + 1;
  DELETE FROM stale_records WHERE workspace = NEW.workspace;
  INSERT INTO stale_records SELECT NEW.workspace, generation FROM identity;
END;
CREATE TRIGGER snapshot_updated AFTER UPDATE ON snapshots BEGIN
  UPDATE identity SET generation = generation + 1;
  DELETE FROM stale_records WHERE workspace = NEW.workspace;
  INSERT INTO stale_records SELECT NEW.workspace, generation FROM identity;
END;
CREATE TRIGGER snapshot_deleted AFTER DELETE ON snapshots BEGIN
  UPDATE identity SET generation = generation + 1;
  DELETE FROM stale_records WHERE workspace = OLD.workspace;
  INSERT INTO stale_records SELECT OLD.workspace, generation FROM identity;
END;
CREATE INDEX forwards_by_workspace ON forwards (workspace, guest_port);
CREATE TRIGGER session_deleted AFTER DELETE ON sessions BEGIN
  INSERT OR IGNORE INTO ended_sessions (id) VALUES (OLD.id);
END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('operations',7);
INSERT INTO settings (workspace, labels, last_used, suspended) VALUES ('01900000-0000-7000-8000-0000000000a1', '{}', 1767323045679000, '01900000-0000-7000-8000-0000000000e2');
COMMIT;
PRAGMA user_version = 7;
