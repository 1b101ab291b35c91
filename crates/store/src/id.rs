//! Identities of objects: BLAKE3 over their content.

use std::fmt;
use std::sync::LazyLock;

/// What an object contains. Stored in packs, so numbers never change meaning.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum ObjectKind {
    /// The bytes of a small file, or of one chunk of a large one.
    Blob = 1,
    /// A directory: its own metadata, and its entries or its pages.
    Directory = 2,
    /// A part of the entries of a large directory.
    Page = 3,
    /// The chunks and holes of a large file.
    Recipe = 4,
    /// The extended attributes of a file or directory.
    Attributes = 5,
}

impl ObjectKind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Blob, Self::Directory, Self::Page, Self::Recipe, Self::Attributes];

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// The kind in words, for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Directory => "directory",
            Self::Page => "directory page",
            Self::Recipe => "list of chunks",
            Self::Attributes => "set of attributes",
        }
    }
}

/// The identity of an object. A blob's is the plain BLAKE3 hash of its bytes, as `b3sum` prints it; other kinds are
/// hashed in a domain of their own, so that no file content can pass for a directory.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ObjectId([u8; Self::LEN]);

impl ObjectId {
    /// Length in bytes.
    pub const LEN: usize = 32;

    /// An identity that was stored elsewhere.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes of the identity.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }

    /// The identity of an object with this content.
    pub fn of(kind: ObjectKind, content: &[u8]) -> Self {
        let hash = match kind {
            ObjectKind::Blob => blake3::hash(content),
            ObjectKind::Directory => in_domain(&DIRECTORY, content),
            ObjectKind::Page => in_domain(&PAGE, content),
            ObjectKind::Recipe => in_domain(&RECIPE, content),
            ObjectKind::Attributes => in_domain(&ATTRIBUTES, content),
        };
        Self(*hash.as_bytes())
    }

    /// The first bits of the identity, which are uniformly distributed.
    pub(crate) fn prefix(&self) -> u32 {
        let [a, b, c, d, ..] = self.0;
        u32::from_be_bytes([a, b, c, d])
    }
}

static DIRECTORY: LazyLock<blake3::Hasher> = LazyLock::new(|| domain("agentiso store: directory"));
static PAGE: LazyLock<blake3::Hasher> = LazyLock::new(|| domain("agentiso store: directory page"));
static RECIPE: LazyLock<blake3::Hasher> = LazyLock::new(|| domain("agentiso store: chunks of a file"));
static ATTRIBUTES: LazyLock<blake3::Hasher> = LazyLock::new(|| domain("agentiso store: attributes"));

fn domain(context: &str) -> blake3::Hasher {
    blake3::Hasher::new_derive_key(context)
}

fn in_domain(hasher: &blake3::Hasher, content: &[u8]) -> blake3::Hash {
    hasher.clone().update(content).finalize()
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(6).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The identity of a tree: that of the object of its root directory.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TreeId(pub ObjectId);

impl TreeId {
    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        ObjectId::from_hex(text).map(Self)
    }
}

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_separate_identities_and_blobs_have_the_plain_hash() {
        let ids: std::collections::HashSet<_> =
            ObjectKind::ALL.iter().map(|kind| ObjectId::of(*kind, b"same")).collect();
        assert_eq!(ids.len(), ObjectKind::ALL.len());
        assert_eq!(
            ObjectId::of(ObjectKind::Blob, b"").to_string(),
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
    }

    #[test]
    fn an_identity_is_read_back_from_its_text() {
        let id = ObjectId::of(ObjectKind::Page, b"x");
        assert_eq!(ObjectId::from_hex(&id.to_string()), Some(id));
        assert_eq!(ObjectId::from_hex("12"), None);
    }
}
