-- Why a snapshot was taken. Before, snapshots of suspended workspaces had reserved names.
ALTER TABLE snapshots ADD COLUMN kind TEXT NOT NULL DEFAULT 'user' CHECK (kind IN ('user', 'suspend', 'checkpoint'));
UPDATE snapshots SET kind = 'suspend', name = 'suspend-' || id
  WHERE name = 'suspended' OR (name GLOB 'suspended-*' AND substr(name, 11) NOT GLOB '*[^0-9]*');
