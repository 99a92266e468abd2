//! What is wrong with an experiment's text, in the words of its user.
//!
//! Serde speaks of `f64` and of `struct Data`, and does not know a key's table.
//! The document knows the key and what was written; this joins the two.

use std::ops::Range;

use toml_edit::{Document, Item, Table};

use crate::keys::{no_such_key, no_such_key_of, unknown_field};

/// A mistake: where, and what was expected instead.
pub(crate) struct Mistake {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The key with its table; empty if none can be named.
    pub(crate) key: String,
    /// Expected against found.
    pub(crate) message: String,
}

impl Mistake {
    /// Understands serde's error about a text that is TOML.
    pub(crate) fn new(text: &str, error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or_default();
        let place = Document::parse(text).ok().and_then(|d| find(d.as_table(), "", &span, text));
        let (key, found) = place.unwrap_or_default();
        let message = error.message();
        // It is nowhere, and so at no key.
        if let Some(missing) = message.strip_prefix("missing field ") {
            return Self { line: 1, key: String::new(), message: format!("{missing} is missing") };
        }
        let message = match message.starts_with("unknown field ") {
            true => no_such_key(&key),
            false => plain(message, &found),
        };
        Self { line: line_at(text, span.start), key, message }
    }

    /// With the key, unless the reader sees it anyway.
    pub(crate) fn told_beside(&self, shown: &str) -> String {
        let named = self.message.contains(&format!("`{}`", self.key));
        if self.key == shown || self.key.is_empty() || named {
            return self.message.clone();
        }
        format!("`{}`: {}", self.key, self.message)
    }
}

/// What is wrong with a text that was to be read as TOML, in plain words: the line, the key, what
/// was expected and what was found.
pub fn mistake_in(text: &str, error: &toml::de::Error) -> String {
    let mut mistake = Mistake::new(text, error);
    if let Some(known) = unknown_field(error.message()) {
        mistake.message = no_such_key_of(&mistake.key, &known);
    }
    format!("line {}: {}", mistake.line, mistake.told_beside(""))
}

/// The line, from 1, of a place in a text.
pub(crate) fn line_at(text: &str, byte: usize) -> usize {
    let before = text.get(..byte).unwrap_or_default();
    1 + before.bytes().filter(|b| *b == b'\n').count()
}

/// The innermost key at a place, and what is written there.
fn find(table: &Table, prefix: &str, at: &Range<usize>, text: &str) -> Option<(String, String)> {
    for (name, item) in table {
        let key = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        if let Item::Table(inner) = item
            && let Some(found) = find(inner, &key, at, text)
        {
            return Some(found);
        }
        // A value comes after its key, the brackets of a header come before it.
        let spans = [table.key(name).and_then(|k| k.span()), item.span()];
        let start = spans.iter().flatten().map(|span| span.start).min();
        let end = spans.iter().flatten().map(|span| span.end).max();
        if !start.zip(end).is_some_and(|(start, end)| (start..end).contains(&at.start)) {
            continue;
        }
        let [_, value] = spans;
        let written = value.and_then(|span| text.get(span)).unwrap_or_default();
        let found = if item.is_value() { written.trim() } else { "a table" };
        return Some((key, found.to_owned()));
    }
    None
}

/// Serde's message without the names of Rust.
fn plain(message: &str, found: &str) -> String {
    if message == "wanted string or table" {
        return format!("expected text in quotes, found {found}");
    }
    let kind = message.strip_prefix("invalid type: ").or(message.strip_prefix("invalid value: "));
    if let Some((_, expected)) = kind.and_then(|rest| rest.rsplit_once(", expected ")) {
        let expected = in_words(expected);
        return match found {
            "" => format!("expected {expected}"),
            found => format!("expected {expected}, found {found}"),
        };
    }
    if message.starts_with("unknown variant `")
        && let Some((_, known)) = message.rsplit_once("`, expected ")
    {
        return format!("expected {}, found {found}", known.replace('`', ""));
    }
    if message.starts_with("expected ") && !message.contains(", found ") {
        return format!("{message}, found {found}");
    }
    message.to_owned()
}

fn in_words(expected: &str) -> &str {
    match expected {
        "f64" => "a number",
        "usize" | "u64" => "a whole number of at least 0",
        "a nonzero usize" | "a nonzero u64" => "a whole number of at least 1",
        "a boolean" => "true or false",
        "a string" | "path string" => "text in quotes",
        "a sequence" => "a list",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    fn told(text: &str) -> String {
        let mistake = Mistake::new(text, &toml::from_str::<Experiment>(text).unwrap_err());
        format!("line {}: {}", mistake.line, mistake.told_beside(""))
    }

    #[test]
    fn mistakes_are_told_without_the_names_of_rust() {
        for (text, expected) in [
            (
                "[optimizer]\nrate = \"fast\"\n",
                "line 2: `optimizer.rate`: expected a number, found \"fast\"",
            ),
            (
                "[hwa]\n\nnum_models = 0\n",
                "line 3: `hwa.num_models`: expected a whole number of at least 1, found 0",
            ),
            (
                "[hwa]\nnum_models = 2.5",
                "line 2: `hwa.num_models`: expected a whole number of at least 1, found 2.5",
            ),
            ("seed = -1\n", "line 1: `seed`: expected a whole number of at least 0, found -1"),
            ("data = 3\n", "line 1: `data`: expected a table, found 3"),
            ("[seed]\n", "line 1: `seed`: expected a whole number of at least 0, found a table"),
            ("method = 5\n", "line 1: `method`: expected text in quotes, found 5"),
            ("name = 5\n", "line 1: `name`: expected text in quotes, found 5"),
            (
                "method = \"adam\"\n",
                "line 1: `method`: expected one of sgd, online, swa, lawa, hwa, sam, fg, repr, \
                 lookahead, ema, sgdr, found \"adam\"",
            ),
            (
                "[evaluate]\naugment = \"no\"\n",
                "line 2: `evaluate.augment`: expected true or false, found \"no\"",
            ),
            (
                "[evaluate]\nevery = 2.5\n",
                "line 2: `evaluate.every`: expected a number of cycles or \"auto\", found 2.5",
            ),
            (
                "[hwa]\nnum_modles = 2\n",
                "line 2: there is no key `hwa.num_modles`; did you mean `hwa.num_models`?",
            ),
            ("hwa.window = 2\n", "line 1: there is no key `hwa.window`; did you mean"),
        ] {
            let message = told(text);
            assert!(message.starts_with(expected), "{text}: {message}");
        }
    }
}
