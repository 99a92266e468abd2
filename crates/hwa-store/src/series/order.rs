//! The order of a series: oldest first.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::iter::Peekable;
use std::path::Path;
use std::str::Chars;

/// What tells which checkpoint is older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Their names, numbers in them compared as numbers: `epoch-9` before `epoch-10`.
    #[default]
    Name,
    /// When they were last written.
    Time,
    /// The training step that they state, or the last number in their names.
    Step,
    /// They come in order.
    Given,
}

/// Compares names as people do: digits by the number that they make, the rest as it is.
pub(crate) fn by_name(a: &Path, b: &Path) -> Ordering {
    let (left, right) = (a.to_string_lossy(), b.to_string_lossy());
    natural(&left, &right).then_with(|| left.cmp(&right))
}

fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.chars().peekable(), b.chars().peekable());
    loop {
        let (Some(left), Some(right)) = (a.peek().copied(), b.peek().copied()) else {
            return a.peek().is_some().cmp(&b.peek().is_some());
        };
        let order = if left.is_ascii_digit() && right.is_ascii_digit() {
            let (left, right) = (digits(&mut a), digits(&mut b));
            // Without leading zeros, a longer number is a larger one, however long.
            left.len().cmp(&right.len()).then_with(|| left.cmp(&right))
        } else {
            a.next();
            b.next();
            left.cmp(&right)
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// The digits of a number, without leading zeros.
fn digits(text: &mut Peekable<Chars<'_>>) -> String {
    let mut digits = String::new();
    while let Some(digit) = text.next_if(char::is_ascii_digit) {
        if !(digits.is_empty() && digit == '0') {
            digits.push(digit);
        }
    }
    digits
}

/// What tells checkpoints apart: the names of their files, with those of their folders if two
/// files in different places are called alike.
pub(crate) fn names(paths: &[&Path]) -> Vec<String> {
    let by_folder = are_told_by_folder(paths);
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let of = |path: &&Path| {
        let own = name(path).unwrap_or_default();
        match path.parent().and_then(name).filter(|_| by_folder) {
            Some(folder) => format!("{folder}/{own}"),
            None => own,
        }
    };
    paths.iter().map(of).collect()
}

/// The last number in the name of each checkpoint, or of its folder if that tells it apart.
pub(crate) fn numbers(paths: &[&Path]) -> Vec<Option<u64>> {
    let by_folder = are_told_by_folder(paths);
    let of = |path: &&Path| {
        let folder = path.parent().filter(|_| by_folder).and_then(last_number);
        folder.or_else(|| last_number(path))
    };
    paths.iter().map(of).collect()
}

fn are_told_by_folder(paths: &[&Path]) -> bool {
    let mut places: HashMap<Option<&OsStr>, &Path> = HashMap::new();
    // The same file twice is in one place.
    paths.iter().any(|path| *places.entry(path.file_name()).or_insert(path) != *path)
}

fn last_number(path: &Path) -> Option<u64> {
    let name = path.file_stem()?.to_string_lossy();
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let before = name[..end].rfind(|c: char| !c.is_ascii_digit());
    let start = before.map_or(0, |at| at + name[at..].chars().next().map_or(1, char::len_utf8));
    name[start..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        let mut names = ["e-10.pt", "e-9.pt", "e-09b.pt", "e-1.pt", "f-0.pt", "E-99.pt", "e.pt"];
        names.sort_by(|a, b| by_name(Path::new(a), Path::new(b)));
        assert_eq!(names, ["E-99.pt", "e-1.pt", "e-9.pt", "e-09b.pt", "e-10.pt", "e.pt", "f-0.pt"]);
    }

    #[test]
    fn equal_numbers_are_told_apart_by_their_digits() {
        assert_eq!(natural("a1", "a01"), Ordering::Equal);
        assert_eq!(by_name(Path::new("a1"), Path::new("a01")), "a1".cmp("a01"));
        let long = "9".repeat(100);
        assert_eq!(natural(&long, &format!("1{long}")), Ordering::Less);
    }

    #[test]
    fn the_last_number_of_a_name_is_its_step() {
        let number = |name: &str| last_number(Path::new(name));
        assert_eq!(number("x/epoch-2-step-0120.pt"), Some(120));
        assert_eq!(number("checkpoint-500"), Some(500));
        assert_eq!(number("größe7.safetensors"), Some(7));
        assert_eq!(number("7ö.pt"), Some(7));
        assert_eq!(number("last.pt"), None);
        assert_eq!(number("run7/last.pt"), None);
        assert_eq!(number("99999999999999999999999.pt"), None);
    }

    #[test]
    fn folders_tell_checkpoints_apart_whose_files_are_called_alike() {
        let told = |paths: [&'static str; 3]| {
            let paths = paths.map(Path::new);
            (names(&paths), numbers(&paths))
        };
        // The 2 of `net-v2` is of none of them.
        let (shown, steps) = told(["c-5/net-v2.pt", "c-10/net-v2.pt", "c-20/net-v2.pt"]);
        assert_eq!(shown, ["c-5/net-v2.pt", "c-10/net-v2.pt", "c-20/net-v2.pt"]);
        assert_eq!(steps, [Some(5), Some(10), Some(20)]);
        let (shown, steps) = told(["x1/model-5.pt", "x2/model-6.pt", "x3/model.pt"]);
        assert_eq!(shown, ["model-5.pt", "model-6.pt", "model.pt"]);
        assert_eq!(steps, [Some(5), Some(6), None]);
        assert_eq!(told(["x/a.pt", "x/a.pt", "x/b.pt"]).0, ["a.pt", "a.pt", "b.pt"]);
    }
}
