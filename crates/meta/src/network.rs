//! Network rules and addresses of workspaces, and the log of their connections.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use agentiso_core::ports::network::NetworkLogFilter;
use agentiso_core::{NetworkEntry, NetworkRules, NetworkState, WorkspaceId};
use rusqlite::Row;

use crate::stored::{Stored, get, get_if_any};
use crate::{MetaError, Read, Tx};

/// The position in the log of a router up to which its entries are stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RouterPosition {
    /// Identifies one run of a router: the next one counts from 0 again.
    pub instance: String,
    /// The number of the first entry that is not stored yet.
    pub next: u64,
}

impl Read<'_> {
    /// Returns the addresses of all workspaces.
    pub fn addresses(&self) -> Result<BTreeSet<Ipv4Addr>, MetaError> {
        let sql = "SELECT address FROM workspaces WHERE address IS NOT NULL";
        Ok(self.all(sql, [], |row| get(row, "address"))?.into_iter().collect())
    }

    /// Reads the log of connections, in the order of the numbers.
    pub fn network_log(&self, filter: &NetworkLogFilter) -> Result<Vec<NetworkEntry>, MetaError> {
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        let workspace = filter.workspace.map(Stored);
        if let Some(after) = filter.after {
            let sql = "SELECT * FROM network_log WHERE (?1 IS NULL OR workspace = ?1) AND sequence > ?2
                ORDER BY sequence LIMIT ?3";
            return self.all(sql, (workspace, number(after), limit), read_entry);
        }
        let sql =
            "SELECT * FROM network_log WHERE (?1 IS NULL OR workspace = ?1) ORDER BY sequence DESC LIMIT ?2";
        let mut newest = self.all(sql, (workspace, limit), read_entry)?;
        newest.reverse();
        Ok(newest)
    }

    /// Returns the number of the newest entry of the log, 0 if there is none.
    pub fn newest_network_entry(&self) -> Result<u64, MetaError> {
        let newest = self.one("SELECT max(sequence) AS newest FROM network_log", [], |row| {
            row.get::<_, Option<i64>>("newest")
        })?;
        Ok(newest.flatten().and_then(|newest| u64::try_from(newest).ok()).unwrap_or_default())
    }

    /// Returns how far the log of a router was read.
    pub fn router_position(&self) -> Result<Option<RouterPosition>, MetaError> {
        self.one("SELECT instance, next FROM network_router", [], |row| {
            let next = row.get::<_, i64>("next")?;
            Ok(RouterPosition { instance: row.get("instance")?, next: next.max(0).unsigned_abs() })
        })
    }
}

impl Tx<'_> {
    /// Changes the rules and the address of a workspace.
    pub fn set_network(&self, id: WorkspaceId, network: &NetworkState) -> Result<(), MetaError> {
        self.require_free_address(id, network.address)?;
        let sql = "UPDATE workspaces SET network = ?2, address = ?3 WHERE id = ?1";
        self.change_workspace(id, sql, (Stored(id), stored_rules(network), network.address.map(Stored)))
    }

    /// Adds entries to the log, with numbers of its own, and records how far the router's log was read. Keeps at most
    /// `kept` entries.
    pub fn append_network_log(
        &self,
        entries: &[NetworkEntry],
        position: &RouterPosition,
        kept: u64,
    ) -> Result<(), MetaError> {
        for entry in entries {
            self.execute(
                "INSERT INTO network_log (workspace, at, entry) VALUES (?1, ?2, ?3)",
                (Stored(entry.workspace), Stored(entry.at), Stored(entry)),
            )?;
        }
        self.execute(
            "INSERT INTO network_router (id, instance, next) VALUES (1, ?1, ?2)
             ON CONFLICT (id) DO UPDATE SET instance = excluded.instance, next = excluded.next",
            (&position.instance, number(position.next)),
        )?;
        let oldest = self.newest_network_entry()?.saturating_sub(kept);
        self.execute("DELETE FROM network_log WHERE sequence <= ?1", [number(oldest)])?;
        Ok(())
    }

    /// Fails if another workspace has the address.
    pub(crate) fn require_free_address(
        &self,
        id: WorkspaceId,
        address: Option<Ipv4Addr>,
    ) -> Result<(), MetaError> {
        let Some(address) = address else { return Ok(()) };
        let sql = "SELECT 1 FROM workspaces WHERE address = ?1 AND id <> ?2";
        match self.one(sql, (Stored(address), Stored(id)), |_| Ok(()))? {
            Some(()) => Err(MetaError::AddressTaken { address }),
            None => Ok(()),
        }
    }
}

/// The rules as they are stored. Rules that reach nothing and say nothing are not.
pub(crate) fn stored_rules(network: &NetworkState) -> Option<Stored<&NetworkRules>> {
    let is_default = network.address.is_none() && network.rules == NetworkRules::default();
    (!is_default).then_some(Stored(&network.rules))
}

/// Reads the columns about the network of a workspace.
pub(crate) fn read_network(row: &Row<'_>) -> rusqlite::Result<NetworkState> {
    Ok(NetworkState {
        rules: get_if_any(row, "network")?.unwrap_or_default(),
        address: get_if_any(row, "address")?,
    })
}

fn read_entry(row: &Row<'_>) -> rusqlite::Result<NetworkEntry> {
    let sequence = row.get::<_, i64>("sequence")?;
    let entry: NetworkEntry = get(row, "entry")?;
    Ok(NetworkEntry { sequence: sequence.max(0).unsigned_abs(), ..entry })
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
