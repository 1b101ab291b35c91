//! The configuration of a whole run of tests, under that of each test.

use toml::{Table, Value};

/// What every test has unless it says otherwise. A pool would start machines beside those of the test.
const COMMON: &str = "[pool]\nsize = 0\n";

/// A test's configuration, completed by the run's.
pub(crate) fn over_the_runs(text: &str) -> String {
    // A test that writes no TOML on purpose gets what it wrote.
    if text.parse::<Table>().is_err() {
        return text.to_owned();
    }
    let run = std::env::var_os("AGENTISO_TEST_CONFIG")
        .map(|file| std::fs::read_to_string(file).expect("the run's configuration"));
    merged(&merged(COMMON, &run.unwrap_or_default()), text)
}

fn merged(below: &str, above: &str) -> String {
    let parsed = |text: &str| text.parse::<Table>().expect("TOML");
    let mut table = parsed(below);
    lay_over(&mut table, parsed(above));
    toml::to_string(&table).expect("TOML")
}

fn lay_over(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
            (_, value) => {
                below.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tests_configuration_wins_and_the_rest_is_the_runs() {
        let merged =
            merged("[vm]\naccel = \"kvm\"\nlink = \"vsock\"\n", "[vm]\naccel = \"tcg\"\n[pool]\nsize = 1\n");
        let table: Table = merged.parse().unwrap();
        assert_eq!(table["vm"]["accel"].as_str(), Some("tcg"));
        assert_eq!(table["vm"]["link"].as_str(), Some("vsock"));
        assert_eq!(table["pool"]["size"].as_integer(), Some(1));
    }

    #[test]
    fn the_pool_is_off_unless_the_test_asks_for_it() {
        let size = |text: &str| over_the_runs(text).parse::<Table>().unwrap()["pool"]["size"].as_integer();
        assert_eq!(size(""), Some(0));
        assert_eq!(size("[pool]\nsize = 2\n"), Some(2));
        assert_eq!(over_the_runs("this is no TOML"), "this is no TOML");
    }
}
