-- A forward may lead on, over the network of its workspace, to another one.
ALTER TABLE forwards ADD COLUMN towards TEXT REFERENCES workspaces (id) ON DELETE CASCADE;
CREATE INDEX forwards_by_target ON forwards (towards) WHERE towards IS NOT NULL;
