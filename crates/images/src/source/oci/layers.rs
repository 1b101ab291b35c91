//! Applying layers one after another.

use std::io::{self, Read};

use agentiso_core::progress::Progress;

use super::super::intake::Intake;
use super::super::tar::{Counted, attributes, entry_kind};
use super::super::{Member, SourceError, TarReader};
use super::blobs::Blobs;
use super::manifest::Layer;
use super::names::{LayerName, layer_name};
use super::verified::Verified;
use crate::unpack;

/// What archives add to the files in them, at most.
const OVERHEAD: u64 = 4 << 30;

/// Applies one layer.
///
/// It is read twice: first to verify it and to find its whiteouts, which apply before its own entries wherever they are in
/// the layer; then for its entries.
pub(super) fn apply(
    blobs: &Blobs,
    layer: &Layer,
    intake: &mut Intake<'_>,
    content_max: u64,
    progress: &dyn Progress,
    origin: &str,
) -> Result<(), SourceError> {
    let pass = Pass { blobs, layer, content_max, origin };
    let mut deletions = Vec::new();
    pass.read(progress, &mut |member, _| {
        match layer_name(&member.path) {
            LayerName::Plain | LayerName::Ignored => {}
            deletion => deletions.push(deletion),
        }
        Ok(())
    })?;
    for deletion in deletions {
        match deletion {
            LayerName::Removes(path) => intake.remove(&path)?,
            LayerName::Empties(path) => intake.empty(&path)?,
            LayerName::Plain | LayerName::Ignored => {}
        }
    }
    pass.read(progress, &mut |member, content| match (layer_name(&member.path), entry_kind(member)) {
        (LayerName::Plain, Some(kind)) => intake.add(&member.path, kind, attributes(member), content),
        _ => Ok(()),
    })
}

struct Pass<'a> {
    blobs: &'a Blobs,
    layer: &'a Layer,
    content_max: u64,
    origin: &'a str,
}

impl Pass<'_> {
    fn read(
        &self,
        progress: &dyn Progress,
        visit: &mut dyn FnMut(&Member, &mut dyn Read) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let corrupt = SourceError::corrupt(self.origin);
        let (file, _) = self.blobs.open(&self.layer.name).map_err(&corrupt)?;
        let mut stored = Verified::new(Counted { inner: file, progress });
        let limit = self.content_max.saturating_add(OVERHEAD);
        let plain = unpack::reader(&mut stored).map_err(&corrupt)?;
        let mut plain = Verified::new(plain.take(limit));
        let visited = visit_all(TarReader::new(&mut plain), visit, self.origin);
        if plain.length() >= limit {
            return Err(SourceError::TooLarge { origin: self.origin.to_owned(), limit: self.content_max });
        }
        // A wrong digest is reported as such, whatever other error the content caused.
        let diff_id = match plain.finish() {
            Ok((_, diff_id)) => diff_id,
            Err(error) => return Err(visited.err().unwrap_or_else(|| corrupt(error))),
        };
        let (_, digest) = stored.finish().map_err(&corrupt)?;
        let wrong = |what| {
            let reason = format!("the layer {} does not match its {what}", self.layer.name);
            corrupt(io::Error::new(io::ErrorKind::InvalidData, reason))
        };
        if self.layer.digest.as_ref().is_some_and(|expected| *expected != digest) {
            return Err(wrong("digest"));
        }
        if self.layer.diff_id != diff_id {
            return Err(wrong("content digest"));
        }
        visited
    }
}

fn visit_all(
    mut tar: TarReader<impl Read>,
    visit: &mut dyn FnMut(&Member, &mut dyn Read) -> Result<(), SourceError>,
    origin: &str,
) -> Result<(), SourceError> {
    let corrupt = SourceError::corrupt(origin);
    while let Some(member) = tar.next().map_err(&corrupt)? {
        visit(&member, &mut tar.content(&member))?;
    }
    Ok(())
}
