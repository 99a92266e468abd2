//! The networks of a figure, which tell its parts apart where there are several.

/// Labels of networks, each once, in the order of their runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Networks(Vec<String>);

impl Networks {
    /// Those of some runs.
    pub fn of<'a>(labels: impl IntoIterator<Item = &'a str>) -> Self {
        let mut networks: Vec<String> = Vec::new();
        for label in labels {
            if networks.iter().all(|known| known != label) {
                networks.push(label.to_owned());
            }
        }
        Self(networks)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// A name for a figure of one of them, fit for a file.
    pub fn named(&self, name: &str, network: &str) -> String {
        match self.0.len() {
            0 | 1 => name.to_owned(),
            _ => format!("{name}-{}", network.replace(|c: char| !c.is_ascii_alphanumeric(), "-")),
        }
    }

    /// A title that says of which network it is.
    pub fn titled(&self, title: &str, network: &str) -> String {
        match self.0.len() {
            0 | 1 => title.to_owned(),
            _ => format!("{title}: {network}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_named_where_there_are_others() {
        let one = Networks::of(["a/1", "a/1"]);
        assert_eq!((one.named("x", "a/1"), one.titled("X", "a/1")), ("x".into(), "X".into()));
        let two = Networks::of(["a/1", "b", "a/1"]);
        assert_eq!(two.iter().collect::<Vec<_>>(), ["a/1", "b"]);
        let (name, title) = (two.named("x", "a/1"), two.titled("X", "a/1"));
        assert_eq!((name, title), ("x-a-1".into(), "X: a/1".into()));
    }
}
