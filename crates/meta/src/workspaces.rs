//! Workspaces.

use agentiso_core::{DiskId, SessionId, SnapshotId, WorkspaceId, WorkspaceName, WorkspaceRef, nearest};
use rusqlite::{Row, named_params};
use serde_json::Value;

use crate::network::{read_network, stored_rules};
use crate::stored::{Stored, get, get_if_any, resources};
use crate::{Lineage, MetaError, Read, Tx, Workspace, WorkspaceState};

impl Read<'_> {
    /// Returns a workspace by its id.
    pub fn workspace(&self, id: WorkspaceId) -> Result<Workspace, MetaError> {
        self.one("SELECT * FROM workspaces WHERE id = ?1", [Stored(id)], read)?
            .ok_or_else(|| not_found(id.to_string(), None))
    }

    /// Returns a workspace, or `None` if it does not exist. An error never means absence.
    pub fn workspace_if_known(&self, id: WorkspaceId) -> Result<Option<Workspace>, MetaError> {
        self.one("SELECT * FROM workspaces WHERE id = ?1", [Stored(id)], read)
    }

    /// Resolves a user's reference: an id, the beginning of a short id, or a name. Which of them it is depends only on
    /// the form of the reference ([`WorkspaceRef`]), never on which workspaces exist.
    pub fn find_workspace(&self, asked: &str) -> Result<Workspace, MetaError> {
        match WorkspaceRef::parse(asked) {
            WorkspaceRef::Id(id) => self.workspace(id),
            WorkspaceRef::ShortId(digits) => self.workspace_by_short_id(digits),
            WorkspaceRef::Name(name) => self.workspace_by_name(name),
        }
    }

    fn workspace_by_name(&self, name: &str) -> Result<Workspace, MetaError> {
        if let Some(found) = self.one("SELECT * FROM workspaces WHERE name = ?1", [name], read)? {
            return Ok(found);
        }
        let names = self.all("SELECT name FROM workspaces", [], |row| row.get::<_, String>(0))?;
        let nearest = nearest(name, names.iter().map(String::as_str));
        Err(not_found(name.to_owned(), nearest.map(str::to_owned)))
    }

    fn workspace_by_short_id(&self, digits: &str) -> Result<Workspace, MetaError> {
        let sql = "SELECT * FROM workspaces WHERE substr(id, -8) LIKE ?1 || '%' ORDER BY name";
        let mut matches = self.all(sql, [digits], read)?;
        match (matches.pop(), matches.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => Err(not_found(digits.to_owned(), None)),
            (Some(last), false) => {
                matches.push(last);
                let matches = matches.into_iter().map(|workspace| workspace.name.into()).collect();
                Err(MetaError::WorkspaceAmbiguous { asked: digits.to_owned(), matches })
            }
        }
    }

    /// Returns every workspace, oldest first.
    pub fn workspaces(&self) -> Result<Vec<Workspace>, MetaError> {
        self.all("SELECT * FROM workspaces ORDER BY created, id", [], read)
    }

    /// Returns the workspaces that were forked from a snapshot, oldest first.
    pub fn forks_of(&self, snapshot: SnapshotId) -> Result<Vec<Workspace>, MetaError> {
        let sql = "SELECT * FROM workspaces WHERE source_snapshot = ?1 ORDER BY created, id";
        self.all(sql, [Stored(snapshot)], read)
    }

    /// Returns the workspaces of a session, oldest first.
    pub fn owned_by(&self, owner: SessionId) -> Result<Vec<Workspace>, MetaError> {
        let sql = "SELECT workspaces.* FROM settings JOIN workspaces ON workspaces.id = settings.workspace
            WHERE owner = ?1 ORDER BY created, id";
        self.all(sql, [Stored(owner)], read)
    }
}

impl Tx<'_> {
    /// Adds a workspace. Its disk and the snapshots it refers to must exist.
    pub fn insert_workspace(&self, workspace: &Workspace) -> Result<(), MetaError> {
        self.require_free_name(&workspace.name)?;
        self.require_writable(workspace.disk)?;
        self.require_free_address(workspace.id, workspace.network.address)?;
        let (state, reason) = match &workspace.state {
            WorkspaceState::Running { .. } => ("running", None),
            WorkspaceState::Stopped { reason } => ("stopped", reason.as_deref()),
        };
        let lineage = workspace.lineage.as_ref();
        self.execute(
            "INSERT INTO workspaces (id, name, image, image_identity, vcpus, memory_mb, disk_gb, created, state,
               stop_reason, machine, disk, position, source_workspace, source_name, source_snapshot, forked_at,
               depth, from_pool, tier, network, address)
             VALUES (:id, :name, :image, :image_identity, :vcpus, :memory_mb, :disk_gb, :created, :state,
               :stop_reason, :machine, :disk, :position, :source_workspace, :source_name, :source_snapshot,
               :forked_at, :depth, :from_pool, :tier, :network, :address)",
            named_params! {
                ":id": Stored(workspace.id),
                ":name": workspace.name.as_str(),
                ":image": workspace.image.as_str(),
                ":image_identity": workspace.image_identity,
                ":vcpus": workspace.resources.vcpus,
                ":memory_mb": workspace.resources.memory_mb,
                ":disk_gb": workspace.resources.disk_gb,
                ":created": Stored(workspace.created),
                ":state": state,
                ":stop_reason": reason,
                ":machine": workspace.machine().map(Stored),
                ":disk": Stored(workspace.disk),
                ":position": workspace.position.map(Stored),
                ":source_workspace": lineage.map(|lineage| Stored(lineage.workspace)),
                ":source_name": lineage.map(|lineage| lineage.name.as_str()),
                ":source_snapshot": lineage.and_then(|lineage| lineage.snapshot).map(Stored),
                ":forked_at": lineage.map(|lineage| Stored(lineage.forked_at)),
                ":depth": workspace.depth(),
                ":from_pool": workspace.from_pool,
                ":tier": workspace.tier,
                ":network": stored_rules(&workspace.network),
                ":address": workspace.network.address.map(Stored),
            },
        )?;
        Ok(())
    }

    /// Removes a workspace and its snapshots. Their disks and memory images stay until they are removed as
    /// unreferenced. Forks keep their lineage, without the snapshot.
    pub fn remove_workspace(&self, id: WorkspaceId) -> Result<(), MetaError> {
        self.change_workspace(id, "DELETE FROM workspaces WHERE id = ?1", [Stored(id)])
    }

    /// Renames a workspace.
    pub fn rename_workspace(&self, id: WorkspaceId, name: &WorkspaceName) -> Result<(), MetaError> {
        if self.workspace(id)?.name == *name {
            return Ok(());
        }
        self.require_free_name(name)?;
        let sql = "UPDATE workspaces SET name = ?2 WHERE id = ?1";
        self.change_workspace(id, sql, (Stored(id), name.as_str()))
    }

    /// Records that a workspace runs on this machine, or updates the description of its machine.
    pub fn set_running(&self, id: WorkspaceId, machine: &Value) -> Result<(), MetaError> {
        let sql = "UPDATE workspaces SET state = 'running', stop_reason = NULL, machine = ?2 WHERE id = ?1";
        self.change_workspace(id, sql, (Stored(id), Stored(machine)))
    }

    /// Records that a workspace has no machine, and the reason unless it was stopped on request.
    pub fn set_stopped(&self, id: WorkspaceId, reason: Option<&str>) -> Result<(), MetaError> {
        let sql = "UPDATE workspaces SET state = 'stopped', stop_reason = ?2, machine = NULL WHERE id = ?1";
        self.change_workspace(id, sql, (Stored(id), reason))
    }

    /// Records how a workspace's machine was started.
    pub fn set_tier(&self, id: WorkspaceId, tier: &str) -> Result<(), MetaError> {
        self.change_workspace(id, "UPDATE workspaces SET tier = ?2 WHERE id = ?1", (Stored(id), tier))
    }

    /// Changes the disk that a workspace writes to.
    pub fn set_disk(&self, id: WorkspaceId, disk: DiskId) -> Result<(), MetaError> {
        self.require_writable(disk)?;
        let sql = "UPDATE workspaces SET disk = ?2 WHERE id = ?1";
        self.change_workspace(id, sql, (Stored(id), Stored(disk)))
    }

    /// Records the size of a workspace's disk.
    pub fn set_disk_gb(&self, id: WorkspaceId, disk_gb: u32) -> Result<(), MetaError> {
        let sql = "UPDATE workspaces SET disk_gb = ?2 WHERE id = ?1";
        self.change_workspace(id, sql, (Stored(id), disk_gb))
    }

    /// Records the number of vCPUs and the memory of a workspace.
    pub fn set_size(&self, id: WorkspaceId, vcpus: u32, memory_mb: u32) -> Result<(), MetaError> {
        let sql = "UPDATE workspaces SET vcpus = ?2, memory_mb = ?3 WHERE id = ?1";
        self.change_workspace(id, sql, (Stored(id), vcpus, memory_mb))
    }

    /// Sets the snapshot that a workspace is based on: the parent of its next one.
    pub fn set_position(&self, id: WorkspaceId, position: Option<SnapshotId>) -> Result<(), MetaError> {
        let sql = "UPDATE workspaces SET position = ?2 WHERE id = ?1";
        self.change_workspace(id, sql, (Stored(id), position.map(Stored)))
    }

    /// Executes a statement that must affect exactly one workspace.
    pub(crate) fn change_workspace(
        &self,
        id: WorkspaceId,
        sql: &str,
        parameters: impl rusqlite::Params,
    ) -> Result<(), MetaError> {
        match self.execute(sql, parameters)? {
            0 => Err(not_found(id.to_string(), None)),
            _ => Ok(()),
        }
    }

    fn require_free_name(&self, name: &WorkspaceName) -> Result<(), MetaError> {
        let taken = self.one("SELECT 1 FROM workspaces WHERE name = ?1", [name.as_str()], |_| Ok(()))?;
        taken.map_or(Ok(()), |()| Err(MetaError::WorkspaceExists { name: name.to_string() }))
    }
}

pub(crate) fn not_found(asked: String, nearest: Option<String>) -> MetaError {
    MetaError::WorkspaceNotFound { asked, nearest }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Workspace> {
    // The schema ensures that the two are consistent.
    let state = match get_if_any(row, "machine")? {
        Some(machine) => WorkspaceState::Running { machine },
        None => WorkspaceState::Stopped { reason: row.get("stop_reason")? },
    };
    Ok(Workspace {
        id: get(row, "id")?,
        name: get(row, "name")?,
        image: get(row, "image")?,
        image_identity: row.get("image_identity")?,
        resources: resources(row)?,
        created: get(row, "created")?,
        state,
        disk: get(row, "disk")?,
        position: get_if_any(row, "position")?,
        lineage: read_lineage(row)?,
        from_pool: row.get("from_pool")?,
        tier: row.get("tier")?,
        network: read_network(row)?,
    })
}

fn read_lineage(row: &Row<'_>) -> rusqlite::Result<Option<Lineage>> {
    let Some(workspace) = get_if_any(row, "source_workspace")? else {
        return Ok(None);
    };
    Ok(Some(Lineage {
        workspace,
        name: get(row, "source_name")?,
        snapshot: get_if_any(row, "source_snapshot")?,
        forked_at: get(row, "forked_at")?,
        depth: row.get("depth")?,
    }))
}
