-- A set of tags and metadata by path. Sets never change; rows that need the same set share it.
CREATE TABLE annotation_sets (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    data BLOB NOT NULL
) STRICT;

-- A vault. One without a name was removed, and stays while forks need its history.
CREATE TABLE vaults (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid BLOB NOT NULL UNIQUE,
    name TEXT UNIQUE,
    description TEXT,
    tree BLOB NOT NULL,
    annotations INTEGER REFERENCES annotation_sets (id),
    -- The number of the last change. A change is stored only if it still has the value that the change began with.
    revision INTEGER NOT NULL,
    files INTEGER NOT NULL,
    directories INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    -- What this vault was forked from.
    parent INTEGER REFERENCES vaults (id),
    parent_revision INTEGER,
    parent_tree BLOB,
    parent_annotations INTEGER REFERENCES annotation_sets (id),
    max_bytes INTEGER,
    max_files INTEGER,
    max_file_bytes INTEGER,
    keep_revisions INTEGER,
    keep_auto INTEGER,
    keep_undo INTEGER,
    keep_days INTEGER,
    created_at INTEGER NOT NULL,
    modified_at INTEGER NOT NULL,
    expires_at INTEGER,
    removed_at INTEGER
) STRICT;
CREATE INDEX vaults_by_parent ON vaults (parent) WHERE parent IS NOT NULL;
CREATE INDEX vaults_by_expiry ON vaults (expires_at) WHERE expires_at IS NOT NULL;

-- Every change of a working tree. Numbers of a fork continue those of its parent.
CREATE TABLE revisions (
    vault INTEGER NOT NULL REFERENCES vaults (id) ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    before_tree BLOB NOT NULL,
    before_annotations INTEGER REFERENCES annotation_sets (id),
    after_tree BLOB NOT NULL,
    after_annotations INTEGER REFERENCES annotation_sets (id),
    files INTEGER NOT NULL,
    directories INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    operation TEXT NOT NULL,
    path BLOB,
    detail TEXT,
    actor TEXT NOT NULL,
    at INTEGER NOT NULL,
    -- For an undo, the change that it took back; for a redo, the undo; for a restore of everything, the change that it
    -- returned to.
    target INTEGER,
    PRIMARY KEY (vault, revision)
) STRICT, WITHOUT ROWID;

-- Where a change took place: the smallest list, in which a created or removed directory stands for everything in it.
CREATE TABLE touched (
    vault INTEGER NOT NULL REFERENCES vaults (id) ON DELETE CASCADE,
    path BLOB NOT NULL,
    revision INTEGER NOT NULL,
    -- 1 created, 2 removed, 3 changed, 4 too many places to list: anything below may have changed, 5 metadata alone
    kind INTEGER NOT NULL,
    PRIMARY KEY (vault, path, revision)
) STRICT, WITHOUT ROWID;
CREATE INDEX touched_by_revision ON touched (vault, revision);

-- How many versions of a file were pruned, so that the numbers of the others stay.
CREATE TABLE pruned (
    vault INTEGER NOT NULL REFERENCES vaults (id) ON DELETE CASCADE,
    path BLOB NOT NULL,
    versions INTEGER NOT NULL,
    -- Versions up to this revision are hidden; set when only this path was pruned.
    hidden_to INTEGER,
    PRIMARY KEY (vault, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    vault INTEGER NOT NULL REFERENCES vaults (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    -- 1 user, 2 automatic, 3 before a restore, 4 the losing side of a conflict
    kind INTEGER NOT NULL,
    tree BLOB NOT NULL,
    annotations INTEGER REFERENCES annotation_sets (id),
    revision INTEGER NOT NULL,
    files INTEGER NOT NULL,
    directories INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    description TEXT,
    tags TEXT NOT NULL,
    actor TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (vault, name)
) STRICT;

-- What was merged, so that the next merge of the same vaults begins there.
CREATE TABLE merges (
    source INTEGER NOT NULL REFERENCES vaults (id) ON DELETE CASCADE,
    target INTEGER NOT NULL REFERENCES vaults (id) ON DELETE CASCADE,
    tree BLOB NOT NULL,
    annotations INTEGER REFERENCES annotation_sets (id),
    -- The change of the target that the merge was.
    revision INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (source, target)
) STRICT, WITHOUT ROWID;

-- Directories in which commands work on a vault.
CREATE TABLE uses (
    uuid BLOB PRIMARY KEY,
    vault INTEGER NOT NULL REFERENCES vaults (id) ON DELETE CASCADE,
    directory BLOB,
    purpose TEXT NOT NULL,
    base BLOB NOT NULL,
    base_annotations INTEGER REFERENCES annotation_sets (id),
    base_revision INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    started INTEGER NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX uses_by_vault ON uses (vault);

CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    -- By id and by name at the time, so that entries outlive the vault.
    vault BLOB,
    vault_name TEXT,
    operation TEXT NOT NULL,
    path BLOB,
    detail TEXT,
    revision INTEGER,
    actor TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_time ON audit (at);
CREATE INDEX audit_by_vault ON audit (vault, id);

CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
