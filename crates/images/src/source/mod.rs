//! Where root file systems come from: tarballs, directories, OCI and docker archives, registries.
//!
//! Every source ends in the same intake, which alone decides what is safe to pass on. What reaches the sink is
//! ordered: parents first, link targets first, and a path that holds something else already is emptied with a
//! `Removed` before its new entry, so only a directory may meet a directory.

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
