//! Sources of root file systems: tarballs, directories, OCI and docker archives, registries.
//!
//! The entries of all sources go through the same checks (`intake`). They reach the sink in order: parents and link
//! targets first. If a path exists, a `Removed` entry precedes the new one, unless both are directories.

mod checked;
mod dir;
mod error;
mod intake;
mod links;
mod oci;
mod open;
mod path;
mod registry;
mod tar;

pub use checked::CheckedSink;
pub use dir::DirectorySource;
pub use error::SourceError;
pub use intake::ImportLimits;
pub use oci::{LayerName, OciSource, layer_name};
pub use open::{RootfsSource, Summary, open};
pub use path::{PathFault, normalise};
pub use registry::{docker_config, pull};
pub use tar::{TarSource, parse_pax};

pub(crate) use tar::{Member, MemberKind, TarReader, stream_tar};
