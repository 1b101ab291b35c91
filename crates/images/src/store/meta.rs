//! `image.json`: the metadata of an image.

use agentiso_core::ImageName;
pub use agentiso_core::action::ImageSource as SourceKind;
pub use agentiso_core::ports::host::OciDefaults;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The version of `image.json` that is written, and the newest that is read.
const FORMAT: u32 = 1;

/// The origin of an image.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ImageSource {
    /// The kind of source.
    pub kind: SourceKind,
    /// The recipe, path or reference.
    pub reference: String,
}

/// The metadata of an image.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ImageMeta {
    /// Its name.
    pub name: ImageName,
    /// Its origin.
    pub source: ImageSource,
    /// When it was made.
    pub created: Timestamp,
    /// The digest of the OCI manifest it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The length of its file system.
    pub fs_bytes: u64,
    /// How many bytes its files have.
    pub content_bytes: u64,
    /// How many files, directories and links it has.
    pub entries: u64,
    /// The UUID of its file system.
    pub fs_uuid: String,
    /// The defaults of an OCI image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<OciDefaults>,
}

#[derive(Serialize)]
struct Versioned<'a> {
    format: u32,
    #[serde(flatten)]
    meta: &'a ImageMeta,
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl ImageMeta {
    /// The text of `image.json`.
    pub(super) fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(&Versioned { format: FORMAT, meta: self })?;
        text.push('\n');
        Ok(text)
    }

    /// Parses `image.json`.
    pub(super) fn from_json(text: &str) -> Result<Self, String> {
        let Version { format } =
            serde_json::from_str(text).map_err(|error| format!("image.json is damaged: {error}"))?;
        if format != FORMAT {
            return Err(format!(
                "image.json has format {format}, but this version of agentiso knows only {FORMAT}"
            ));
        }
        serde_json::from_str(text).map_err(|error| format!("image.json is damaged: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{
  "format": 1,
  "name": "web",
  "source": {
    "kind": "registry",
    "reference": "registry.example/team/web:1.2"
  },
  "created": "2026-11-15T10:20:30Z",
  "digest": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
  "fs_bytes": 2147483648,
  "content_bytes": 123456789,
  "entries": 4321,
  "fs_uuid": "8f1b5a52-6c0e-4b0c-9d0e-0a4f6f8f3c11",
  "defaults": {
    "env": [
      "PATH=/usr/bin"
    ],
    "workdir": "/srv",
    "user": "www-data",
    "cmd": [
      "serve",
      "--port=80"
    ]
  }
}
"#;

    fn sample() -> ImageMeta {
        ImageMeta {
            name: "web".parse().unwrap(),
            source: ImageSource {
                kind: SourceKind::Registry,
                reference: "registry.example/team/web:1.2".to_owned(),
            },
            created: "2026-11-15T10:20:30Z".parse().unwrap(),
            digest: Some(format!("sha256:{}", "0123456789abcdef".repeat(4))),
            fs_bytes: 2 << 30,
            content_bytes: 123_456_789,
            entries: 4321,
            fs_uuid: "8f1b5a52-6c0e-4b0c-9d0e-0a4f6f8f3c11".to_owned(),
            defaults: Some(OciDefaults {
                env: vec!["PATH=/usr/bin".to_owned()],
                workdir: Some("/srv".to_owned()),
                user: Some("www-data".to_owned()),
                cmd: vec!["serve".to_owned(), "--port=80".to_owned()],
            }),
        }
    }

    #[test]
    fn format_1_is_written_and_read_as_it_was_frozen() {
        assert_eq!(sample().to_json().unwrap(), SAMPLE);
        assert_eq!(ImageMeta::from_json(SAMPLE).unwrap(), sample());
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let meta = ImageMeta { digest: None, defaults: None, ..sample() };
        let text = meta.to_json().unwrap();
        assert!(!text.contains("digest") && !text.contains("defaults"), "{text}");
        assert_eq!(ImageMeta::from_json(&text).unwrap(), meta);
    }

    #[test]
    fn a_format_of_the_future_is_refused_by_number() {
        let future = SAMPLE.replace("\"format\": 1", "\"format\": 2");
        assert!(ImageMeta::from_json(&future).unwrap_err().contains("format 2"));
        assert!(ImageMeta::from_json("{}").unwrap_err().contains("damaged"));
        assert!(ImageMeta::from_json(&SAMPLE[..200]).unwrap_err().contains("damaged"));
        assert!(ImageMeta::from_json(&SAMPLE.replace("\"web\"", "\"../web\"")).is_err());
    }
}
