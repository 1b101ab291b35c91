//! Writing root file systems out: as a tarball, or as an OCI archive that other tools read.

mod oci;
mod tarball;

pub use oci::write_oci_archive;
pub use tarball::TarSink;
