-- Several host ports may lead to one port of a workspace; a host port leads to one workspace only.
CREATE TABLE forwards_by_host_port (
  host_port  INTEGER NOT NULL PRIMARY KEY CHECK (host_port BETWEEN 1 AND 65535),
  workspace  TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  guest_port INTEGER NOT NULL CHECK (guest_port BETWEEN 1 AND 65535),
  created    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO forwards_by_host_port (host_port, workspace, guest_port, created)
  SELECT host_port, workspace, guest_port, created FROM forwards;
DROP TABLE forwards;
ALTER TABLE forwards_by_host_port RENAME TO forwards;
CREATE INDEX forwards_by_workspace ON forwards (workspace, guest_port);
