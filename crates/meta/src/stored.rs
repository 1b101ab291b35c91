//! Conversion of values to and from columns.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use agentiso_core::{
    ApprovalId, DiskId, ImageName, MemoryId, NetworkEntry, NetworkRules, Resources, SessionId, SnapshotId,
    SnapshotName, WorkspaceId, WorkspaceName, check_labels,
};
use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Result, Row};
use serde_json::Value;
use uuid::Uuid;

/// A value in its column format.
#[derive(Clone, Copy)]
pub(crate) struct Stored<T>(pub T);

/// Reads a column that is never null.
pub(crate) fn get<T>(row: &Row<'_>, column: &str) -> Result<T>
where
    Stored<T>: FromSql,
{
    Ok(row.get::<_, Stored<T>>(column)?.0)
}

/// Reads a column that may be null.
pub(crate) fn get_if_any<T>(row: &Row<'_>, column: &str) -> Result<Option<T>>
where
    Stored<T>: FromSql,
{
    Ok(row.get::<_, Option<Stored<T>>>(column)?.map(|stored| stored.0))
}

/// Reads the columns with the size of a machine.
pub(crate) fn resources(row: &Row<'_>) -> Result<Resources> {
    Ok(Resources { vcpus: row.get("vcpus")?, memory_mb: row.get("memory_mb")?, disk_gb: row.get("disk_gb")? })
}

fn refused<E: std::error::Error + Send + Sync + 'static>(error: E) -> FromSqlError {
    FromSqlError::Other(Box::new(error))
}

macro_rules! stored_ids {
    ($($type:ident)*) => { $(
        impl FromSql for Stored<$type> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                Ok(Self($type::from_uuid(Uuid::try_parse(value.as_str()?).map_err(refused)?)))
            }
        }

        impl ToSql for Stored<$type> {
            fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
                Ok(self.0.to_string().into())
            }
        }
    )* };
}

stored_ids! { ApprovalId WorkspaceId SnapshotId DiskId MemoryId SessionId }

macro_rules! stored_names {
    ($($type:ident)*) => { $(
        impl FromSql for Stored<$type> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                Ok(Self(value.as_str()?.parse().map_err(refused)?))
            }
        }
    )* };
}

stored_names! { WorkspaceName SnapshotName ImageName }

impl FromSql for Stored<Timestamp> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(Timestamp::from_microsecond(value.as_i64()?).map_err(refused)?))
    }
}

impl ToSql for Stored<Timestamp> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.0.as_microsecond().into())
    }
}

impl FromSql for Stored<Value> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(serde_json::from_str(value.as_str()?).map_err(refused)?))
    }
}

impl ToSql for Stored<&Value> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.0.to_string().into())
    }
}

impl FromSql for Stored<BTreeMap<String, String>> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let labels = serde_json::from_str(value.as_str()?).map_err(refused)?;
        check_labels(&labels).map_err(refused)?;
        Ok(Self(labels))
    }
}

impl ToSql for Stored<&BTreeMap<String, String>> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        let labels = serde_json::to_string(self.0);
        Ok(labels.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?.into())
    }
}

impl FromSql for Stored<Ipv4Addr> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(value.as_str()?.parse().map_err(refused)?))
    }
}

impl ToSql for Stored<Ipv4Addr> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.0.to_string().into())
    }
}

macro_rules! stored_json {
    ($($type:ident)*) => { $(
        impl FromSql for Stored<$type> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                Ok(Self(serde_json::from_str(value.as_str()?).map_err(refused)?))
            }
        }

        impl ToSql for Stored<&$type> {
            fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
                let json = serde_json::to_string(self.0);
                Ok(json.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?.into())
            }
        }
    )* };
}

stored_json! { NetworkRules NetworkEntry }
