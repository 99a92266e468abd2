//! Text files that list images: one line each, in columns.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::DataError;

/// Lists are read whole; ImageNet's largest has a tenth of this.
const LARGEST: u64 = 64 << 20;

/// A list, line by line.
#[derive(Debug)]
pub(crate) struct List {
    path: PathBuf,
    text: String,
}

/// One line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    list: &'a List,
    number: usize,
    text: &'a str,
}

impl List {
    /// Reads a list.
    pub(crate) fn read(path: PathBuf) -> Result<Self, DataError> {
        let failed = |source| DataError::Io { path: path.clone(), source };
        let found = fs::metadata(&path).map_err(failed)?.len();
        if found > LARGEST {
            let reason = format!("has {found} bytes, expected at most {LARGEST}");
            return Err(DataError::BadLine { path, line: 1, reason });
        }
        // Names of files need not be UTF-8; those of published lists are.
        let text = fs::read_to_string(&path).map_err(failed)?;
        Ok(Self { path, text })
    }

    /// The lines that are not empty.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let lines = (1..).zip(self.text.lines());
        let lines = lines.filter(|(_, text)| !text.trim().is_empty());
        lines.map(|(number, text)| Line { list: self, number, text })
    }

    /// The path of the list.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl<'a> Line<'a> {
    /// Two columns, the second of which may have spaces.
    pub(crate) fn pair(self) -> Result<(&'a str, &'a str), DataError> {
        let pair = self.text.trim().split_once(char::is_whitespace);
        let pair = pair.map(|(first, second)| (first, second.trim()));
        pair.ok_or_else(|| self.wrong(format!("`{}` is not two values", self.text.trim())))
    }

    /// The whole line.
    pub(crate) fn word(self) -> &'a str {
        self.text.trim()
    }

    /// The line's number, in its first column, and what follows. Numbers run from 1.
    pub(crate) fn numbered(self, expected: usize) -> Result<&'a str, DataError> {
        let (number, rest) = self.pair()?;
        match number.parse::<usize>() {
            Ok(found) if found == expected => Ok(rest),
            _ => Err(self.wrong(format!("number is `{number}`, expected {expected}"))),
        }
    }

    /// A whole number within bounds.
    pub(crate) fn number(self, text: &str, low: usize, high: usize) -> Result<usize, DataError> {
        match text.parse::<usize>() {
            Ok(found) if (low..=high).contains(&found) => Ok(found),
            _ => Err(self.wrong(format!("`{text}` is not a number from {low} to {high}"))),
        }
    }

    /// A path below the data set's folder, and not one that leads out of it.
    pub(crate) fn path(self, text: &str) -> Result<PathBuf, DataError> {
        let path = Path::new(text);
        let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        if text.is_empty() || !inside {
            return Err(self.wrong(format!("`{text}` leads out of the data set's folder")));
        }
        Ok(path.to_owned())
    }

    /// What is wrong with the line.
    pub(crate) fn wrong(self, reason: String) -> DataError {
        DataError::BadLine { path: self.list.path.clone(), line: self.number, reason }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::folder;

    fn list(text: &str) -> List {
        List { path: "list.txt".into(), text: text.to_owned() }
    }

    fn first<T>(text: &str, read: impl Fn(Line<'_>) -> Result<T, DataError>) -> Result<T, String> {
        read(list(text).lines().next().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn columns_are_read_and_mistakes_named_with_their_line() {
        let pair = |text| first(text, |l| l.pair().map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(pair("a b c\n").unwrap(), ("a".to_owned(), "b c".to_owned()));
        assert_eq!(pair("a\tb\r\n").unwrap(), ("a".to_owned(), "b".to_owned()));
        assert_eq!(pair("\n\n one\n").unwrap_err(), "`list.txt`, line 3: `one` is not two values");
        let numbered = |text| first(text, |line| line.numbered(1).map(str::to_owned));
        assert_eq!(numbered("1 x").unwrap(), "x");
        assert_eq!(numbered("2 x").unwrap_err(), "`list.txt`, line 1: number is `2`, expected 1");
        let number = |text| first(text, |line| line.number(line.word(), 1, 3));
        assert_eq!(number("3"), Ok(3));
        assert_eq!(number("4").unwrap_err(), "`list.txt`, line 1: `4` is not a number from 1 to 3");
        assert!(number("-1").is_err() && number("x").is_err());
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        let path = |text| first(text, |line| line.path(line.word()));
        assert_eq!(path("a/b.jpg").unwrap(), Path::new("a/b.jpg"));
        for text in ["../x", "a/../../x", "/etc/passwd", "./../x", "a/.."] {
            assert!(path(text).unwrap_err().contains("leads out"), "{text}");
        }
    }

    #[test]
    fn lists_that_are_no_text_are_refused() {
        let dir = folder([("list.txt", vec![0xff, 0xfe, 0])]);
        let error = List::read(dir.path().join("list.txt")).unwrap_err();
        assert!(matches!(error, DataError::Io { .. }));
        assert!(List::read(dir.path().join("none.txt")).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}") {
            for line in list(&text).lines() {
                let _ = (line.pair(), line.numbered(1), line.path(line.word()));
                let _ = line.number(line.word(), 0, 9);
            }
        }
    }
}
