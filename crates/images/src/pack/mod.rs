//! Writing root file systems as tarballs or OCI archives.

mod oci;
mod tarball;

pub use oci::write_oci_archive;
pub use tarball::TarSink;
