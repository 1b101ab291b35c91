//! The images of an installation: `<root>/<name>/{rootfs.raw,image.json}`.

mod error;
mod images;
mod meta;
mod pending;
mod sized;

pub use error::StoreError;
pub use images::{Image, ImageStore};
pub use meta::{ImageMeta, ImageSource, OciDefaults, SourceKind};
pub use pending::PendingImage;
