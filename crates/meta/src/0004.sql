-- The size of a workspace from its next start, and whether it starts with the host.

ALTER TABLE settings ADD COLUMN restart INTEGER NOT NULL DEFAULT 0 CHECK (restart IN (0, 1));
-- It was stopped explicitly, so it does not start with the host.
ALTER TABLE settings ADD COLUMN stay_stopped INTEGER NOT NULL DEFAULT 0 CHECK (stay_stopped IN (0, 1));
ALTER TABLE settings ADD COLUMN next_vcpus INTEGER CHECK (next_vcpus >= 1);
ALTER TABLE settings ADD COLUMN next_memory_mb INTEGER CHECK (next_memory_mb >= 1);
