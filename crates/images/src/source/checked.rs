//! Checking the entries of a source in another crate.

use std::io::{self, Read};

use agentiso_core::ports::{RootfsEntry, RootfsSink};

use super::intake::{Attributes, Intake};
use super::{ImportLimits, SourceError, Summary};

/// Checks entries and passes them to another sink.
pub struct CheckedSink<'a> {
    intake: Intake<'a>,
    fault: Option<SourceError>,
}

impl<'a> CheckedSink<'a> {
    /// Checks entries from `origin` before they reach `sink`.
    pub fn new(sink: &'a mut dyn RootfsSink, limits: ImportLimits, origin: &str) -> Self {
        Self { intake: Intake::new(sink, limits, origin), fault: None }
    }

    /// The totals of all entries.
    ///
    /// # Errors
    ///
    /// The reason for which an entry was refused, if one was.
    pub fn finish(self) -> Result<Summary, SourceError> {
        let (entries, bytes) = self.intake.totals();
        match self.fault {
            Some(fault) => Err(fault),
            None => Ok(Summary { entries, bytes, digest: None, defaults: None }),
        }
    }
}

impl RootfsSink for CheckedSink<'_> {
    fn entry(&mut self, entry: &RootfsEntry, content: &mut dyn Read) -> io::Result<()> {
        let attributes = Attributes {
            mode: entry.mode,
            uid: u64::from(entry.uid),
            gid: u64::from(entry.gid),
            mtime: entry.mtime,
            xattrs: entry.xattrs.clone(),
        };
        self.intake.add(&entry.path, entry.kind.clone(), attributes, content).map_err(|fault| {
            let told = io::Error::other(fault.to_string());
            self.fault = Some(fault);
            told
        })
    }
}
