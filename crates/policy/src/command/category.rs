//! What a command may do, as a set of categories.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};

/// One kind of effect of a command.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Changes nothing, and none of the other categories applies.
    ReadOnly,
    /// Changes files or other state, or runs code that cannot be read here.
    Mutating,
    /// Deletes or overwrites something that cannot be made again. Implies `mutating`.
    Destructive,
    /// Uses the network.
    Networked,
    /// Reaches a path outside the workspace, or changes the host itself.
    HostEscapeRisk,
    /// Wants a terminal with a person at it.
    Interactive,
}

impl Category {
    /// All categories, in the order in which they are listed.
    pub const ALL: [Self; 6] = [
        Self::ReadOnly,
        Self::Mutating,
        Self::Destructive,
        Self::Networked,
        Self::HostEscapeRisk,
        Self::Interactive,
    ];

    /// The name in policy files and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Mutating => "mutating",
            Self::Destructive => "destructive",
            Self::Networked => "networked",
            Self::HostEscapeRisk => "host_escape_risk",
            Self::Interactive => "interactive",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::ReadOnly => 0,
            Self::Mutating => 1,
            // Whatever destroys also changes.
            Self::Destructive => 2 | 1,
            Self::Networked => 4,
            Self::HostEscapeRisk => 8,
            Self::Interactive => 16,
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A set of categories. The empty set of risks is `read_only`.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Categories(u8);

impl Categories {
    /// Only `read_only`.
    pub const READ_ONLY: Self = Self(0);
    /// Only `mutating`.
    pub const MUTATING: Self = Self(Category::Mutating.bit());
    /// `destructive` and `mutating`.
    pub const DESTRUCTIVE: Self = Self(Category::Destructive.bit());
    /// Only `networked`.
    pub const NETWORKED: Self = Self(Category::Networked.bit());
    /// Only `host_escape_risk`.
    pub const HOST_ESCAPE_RISK: Self = Self(Category::HostEscapeRisk.bit());
    /// Only `interactive`.
    pub const INTERACTIVE: Self = Self(Category::Interactive.bit());
    /// Every category but `read_only`.
    pub const EVERY_RISK: Self = Self(31);

    /// The union of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in `self` and not in `other`. `destructive` takes `mutating` with it only if `other` has both.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether the set has the category.
    pub const fn has(self, category: Category) -> bool {
        match category {
            Category::ReadOnly => self.0 == 0,
            Category::Destructive => self.0 & 2 != 0,
            _ => self.0 & category.bit() != 0,
        }
    }

    /// Whether there is no risk.
    pub const fn is_read_only(self) -> bool {
        self.0 == 0
    }

    /// Whether every risk of `other` is in this set.
    pub const fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The categories in their fixed order.
    pub fn iter(self) -> impl Iterator<Item = Category> {
        Category::ALL.into_iter().filter(move |category| self.has(*category))
    }
}

impl FromIterator<Category> for Categories {
    fn from_iter<I: IntoIterator<Item = Category>>(categories: I) -> Self {
        Self(categories.into_iter().fold(0, |bits, category| bits | category.bit()))
    }
}

impl fmt::Debug for Categories {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl fmt::Display for Categories {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, category) in self.iter().enumerate() {
            if index > 0 {
                out.write_str(", ")?;
            }
            out.write_str(category.as_str())?;
        }
        Ok(())
    }
}

impl Serialize for Categories {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl JsonSchema for Categories {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Categories".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<Category>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destructive_implies_mutating() {
        let set: Categories = [Category::Destructive].into_iter().collect();
        assert!(set.has(Category::Mutating));
        assert_eq!(serde_json::to_string(&set).unwrap(), r#"["mutating","destructive"]"#);
    }

    #[test]
    fn the_empty_set_is_read_only() {
        assert_eq!(serde_json::to_string(&Categories::default()).unwrap(), r#"["read_only"]"#);
        assert!(!Categories::NETWORKED.has(Category::ReadOnly));
    }
}
