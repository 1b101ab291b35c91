//! Whiteouts: names in a layer that delete files of lower layers.

/// What the name of a layer's member means.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LayerName {
    /// An ordinary member.
    Plain,
    /// Deletes this path of lower layers.
    Removes(Vec<u8>),
    /// Deletes everything below this path of lower layers.
    Empties(Vec<u8>),
    /// A marker of the program that made the layer, to be ignored.
    Ignored,
}

/// Tells what the name of a layer's member means.
pub fn layer_name(path: &[u8]) -> LayerName {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let path = &path[..end];
    let name_at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (directory, name) = path.split_at(name_at);
    match name.strip_prefix(b".wh.") {
        None => LayerName::Plain,
        Some(b".wh..opq") => LayerName::Empties(directory.to_vec()),
        Some(rest) if rest.starts_with(b".wh.") || rest.is_empty() || rest == b"." || rest == b".." => {
            LayerName::Ignored
        }
        Some(rest) => LayerName::Removes([directory, rest].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whiteouts_are_told_from_files() {
        assert_eq!(layer_name(b"etc/passwd"), LayerName::Plain);
        assert_eq!(layer_name(b"etc/.wh.passwd"), LayerName::Removes(b"etc/passwd".to_vec()));
        assert_eq!(layer_name(b".wh.etc"), LayerName::Removes(b"etc".to_vec()));
        assert_eq!(layer_name(b"./var/.wh..wh..opq"), LayerName::Empties(b"./var/".to_vec()));
        assert_eq!(layer_name(b".wh..wh.plnk/"), LayerName::Ignored);
        assert_eq!(layer_name(b"a/.wh..wh.aufs"), LayerName::Ignored);
        assert_eq!(layer_name(b"etc/.wh..."), LayerName::Ignored);
        assert_eq!(layer_name(b"etc/.wh."), LayerName::Ignored);
        assert_eq!(layer_name(b"etc.wh.x"), LayerName::Plain);
    }

    proptest! {
        #[test]
        fn no_name_climbs_out_by_being_a_whiteout(path in proptest::collection::vec(
            prop_oneof![Just(b'/'), Just(b'.'), Just(b'w'), Just(b'h'), any::<u8>()], 0..60))
        {
            if let LayerName::Removes(target) = layer_name(&path) {
                let name = target.rsplit(|byte| *byte == b'/').next().unwrap();
                prop_assert!(!name.is_empty() && name != b"." && name != b"..");
            }
        }
    }
}
