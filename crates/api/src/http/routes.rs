//! The routes of the actions.

use agentiso_core::action::Route;

use crate::catalogue::{self, Entry};

/// All routes, as the actions declare them.
pub(super) fn routes() -> impl Iterator<Item = (&'static Entry, &'static Route)> {
    catalogue::ALL.iter().flat_map(|entry| entry.about.routes.iter().map(move |route| (entry, route)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_actions_have_the_same_route_and_every_parameter_of_a_path_is_one_of_its_action() {
        let mut known = HashSet::new();
        for (entry, route) in routes() {
            assert!(known.insert((route.method.as_str(), route.path)), "{} is there twice", route.path);
            for name in route.parameters() {
                assert!(
                    entry.input_schema()["properties"].get(name).is_some(),
                    "{} has no {name}",
                    entry.about.name
                );
            }
        }
    }
}
