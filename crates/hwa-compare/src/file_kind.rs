//! Experiments and comparisons are told apart by their keys, before one is read as the other.

use toml::Table;

/// Keys that only a comparison has, at its top.
const OF_COMPARISONS: [&str; 3] = ["methods", "networks", "datasets"];
/// Tables that only an experiment has there.
const OF_EXPERIMENTS: [&str; 5] = ["data", "hwa", "model", "optimizer", "schedule"];

/// What a file of TOML is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// What one run trains.
    Experiment,
    /// What is compared.
    Comparison,
}

impl FileKind {
    /// Nothing, if the text has keys of both or of neither, or is no TOML.
    pub fn of(text: &str) -> Option<Self> {
        let keys: Table = text.parse().ok()?;
        let has = |names: &[&str]| names.iter().any(|name| keys.contains_key(*name));
        match (has(&OF_COMPARISONS), has(&OF_EXPERIMENTS)) {
            (true, false) => Some(Self::Comparison),
            (false, true) => Some(Self::Experiment),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_keys() {
        for (text, kind) in [
            ("name = \"a\"\nmethods = [\"sgd\"]\n", Some(FileKind::Comparison)),
            ("name = \"a\"\nhwa.num_models = 3\n", Some(FileKind::Experiment)),
            ("networks = []\n[model]\nname = \"resnet8\"\n", None),
            ("name = \"a\"\n", None),
            ("methods = [", None),
        ] {
            assert_eq!(FileKind::of(text), kind, "{text}");
        }
    }
}
