-- The identity of this database, and a counter of changes to workspaces. Both are also stored beside the disks, to
-- detect a database that is new, older than the disks, or of another installation.
CREATE TABLE identity (
  one        INTEGER PRIMARY KEY CHECK (one = 1),
  database   TEXT NOT NULL,
  generation INTEGER NOT NULL
) STRICT;
INSERT INTO identity (one, database, generation) VALUES (1, lower(hex(randomblob(16))), 1);

-- Workspaces whose record beside the disks is stale: it must be rewritten, or removed with its workspace.
CREATE TABLE stale_records (
  workspace  TEXT PRIMARY KEY,
  generation INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO stale_records SELECT id, 1 FROM workspaces;

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
