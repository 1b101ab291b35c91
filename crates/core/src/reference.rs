//! References to workspaces. The form of a reference alone decides what it means.
//!
//! | form | means |
//! |---|---|
//! | a UUID, with or without hyphens | the workspace with this id |
//! | 6 to 8 hex digits | the workspace whose short id begins with these digits |
//! | anything else | the workspace with this name |
//!
//! The three forms never overlap, because names that look like an id or the beginning of one are refused
//! ([`resembles_id`]). So no name can make a workspace receive calls that are meant for another one.

use crate::WorkspaceId;

/// The minimum number of hex digits of the beginning of a short id.
const MIN_SHORT: usize = 6;
/// The digits of a short id.
const SHORT: usize = 8;
/// The positions of the hyphens in a UUID.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
/// The length of a UUID with hyphens.
const WRITTEN: usize = 36;

/// The meaning of a reference to a workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WorkspaceRef<'a> {
    /// The workspace with this id.
    Id(WorkspaceId),
    /// The workspace whose short id begins with these hex digits, if it is the only one.
    ShortId(&'a str),
    /// The workspace with this name.
    Name(&'a str),
}

impl<'a> WorkspaceRef<'a> {
    /// Parses a reference. Every text that has no other form is a name.
    pub fn parse(text: &'a str) -> Self {
        if let Ok(id) = text.parse() {
            return Self::Id(id);
        }
        if is_hex(text) && (MIN_SHORT..=SHORT).contains(&text.len()) {
            return Self::ShortId(text);
        }
        Self::Name(text)
    }
}

/// Whether a text looks like a workspace id, or like the beginning of one: six or more hex digits and nothing else, or
/// more than the first group of a UUID written with hyphens.
pub fn resembles_id(text: &str) -> bool {
    let digits_only = is_hex(text) && text.len() >= MIN_SHORT;
    let in_groups = |(at, byte): (usize, u8)| match HYPHENS.contains(&at) {
        true => byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    let begins_uuid = (SHORT + 1..=WRITTEN).contains(&text.len()) && text.bytes().enumerate().all(in_groups);
    digits_only || begins_uuid || text.parse::<WorkspaceId>().is_ok()
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::WorkspaceName;

    #[test]
    fn ordinary_names_do_not_resemble_ids() {
        for name in
            ["web", "cafe", "beef", "dad", "12345", "worker-1", "ws-beef1234", "2026-11-18", "facade-2"]
        {
            assert!(!resembles_id(name), "{name}");
            assert_eq!(WorkspaceRef::parse(name), WorkspaceRef::Name(name));
        }
    }

    #[test]
    fn ids_and_their_beginnings_resemble_ids() {
        let id = WorkspaceId::from_uuid(Uuid::now_v7());
        let (whole, simple) = (id.to_string(), id.machine_id());
        for text in
            [whole.as_str(), &simple, &id.short(), &id.short()[..6], &whole.to_uppercase(), "deadbeefcafe"]
        {
            assert!(resembles_id(text), "{text}");
        }
        for end in 9..=whole.len() {
            assert!(resembles_id(&whole[..end]), "{}", &whole[..end]);
        }
    }

    proptest! {
        #[test]
        fn a_name_that_is_accepted_is_never_read_as_an_id(
            name in "[0-9a-fA-F]{1,10}|[0-9a-f-]{1,40}|[0-9a-f]{8}(-[0-9a-f]{4}){0,3}|[a-z0-9-]{1,63}",
        ) {
            if let Ok(name) = name.parse::<WorkspaceName>() {
                prop_assert_eq!(WorkspaceRef::parse(name.as_str()), WorkspaceRef::Name(name.as_str()));
            }
        }

        #[test]
        fn ids_and_short_ids_are_never_read_as_names(bits: u128, digits in 6usize..=8) {
            let id = WorkspaceId::from_uuid(Uuid::from_u128(bits));
            let (whole, short) = (id.to_string(), id.short());
            prop_assert_eq!(WorkspaceRef::parse(&whole), WorkspaceRef::Id(id));
            prop_assert_eq!(WorkspaceRef::parse(&short[..digits]), WorkspaceRef::ShortId(&short[..digits]));
        }
    }
}
