//! The names of entries, as paths that stay where they belong.
//!
//! What is dangerous on one system is refused on all: an archive is good everywhere or
//! nowhere.

use std::path::PathBuf;

const LONGEST: usize = 255;
const DEEPEST: usize = 32;

/// The path of an entry in the folder that it is unpacked to; empty for that folder itself.
///
/// `None` if it would lead out of it, on any system, or cannot be written down on some.
pub(super) fn safe_path(name: &[u8]) -> Option<PathBuf> {
    let name = std::str::from_utf8(name).ok()?;
    // `\` separates names on Windows, and `:` follows a drive or names a stream.
    let dangerous = |c: char| matches!(c, '\\' | ':') || c.is_control();
    if name.starts_with('/') || name.contains(dangerous) {
        return None;
    }
    let mut path = PathBuf::new();
    let parts = name.split('/').filter(|part| !part.is_empty() && *part != ".");
    for (depth, part) in parts.enumerate() {
        if part == ".." || part.len() > LONGEST || depth >= DEEPEST || is_special(part) {
            return None;
        }
        path.push(part);
    }
    Some(path)
}

/// Windows drops dots and spaces at the end, and takes some names for devices.
fn is_special(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default().trim_end();
    let numbered = |device: &str| {
        let number = stem.get(..3).filter(|start| start.eq_ignore_ascii_case(device));
        number.is_some() && stem.len() == 4 && stem.ends_with(|c: char| c.is_ascii_digit())
    };
    part.ends_with(['.', ' '])
        || ["con", "prn", "aux", "nul"].iter().any(|name| stem.eq_ignore_ascii_case(name))
        || numbered("com")
        || numbered("lpt")
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_data_sets_are_paths() {
        let cases = [
            ("CUB_200_2011/images/001.Black_footed_Albatross/a b.jpg", 4),
            ("./256_ObjectCategories//056.dog/greg/", 3),
            ("aux1/con-text.txt", 2),
            ("..a/b..c", 2),
            ("./", 0),
        ];
        for (name, parts) in cases {
            let path = safe_path(name.as_bytes()).unwrap();
            assert_eq!(path.components().count(), parts, "{name}");
        }
        assert_eq!(safe_path("é.jpg".as_bytes()).as_deref(), Some(Path::new("é.jpg")));
    }

    #[test]
    fn names_that_lead_elsewhere_on_any_system_are_refused() {
        let names = [
            "/etc/passwd",
            "//server/share",
            "..",
            "../x",
            "a/../../x",
            "a/..",
            "./../x",
            "C:/x",
            "C:x",
            "\\x",
            "a\\..\\x",
            "\\\\?\\C:\\x",
            "a/x:stream",
            "con",
            "NUL.txt",
            "a/COM1",
            "lpt9.x",
            "aux .txt",
            "a./x",
            "a /x",
            "a\0b",
            "a\nb",
            "...",
        ];
        for name in names {
            assert_eq!(safe_path(name.as_bytes()), None, "{name:?}");
        }
        assert_eq!(safe_path(b"\xff.jpg"), None);
        assert_eq!(safe_path("x".repeat(256).as_bytes()), None);
        assert_eq!(safe_path("x/".repeat(33).as_bytes()), None);
    }

    proptest! {
        #[test]
        fn whatever_is_let_through_stays_inside(name in "[./\\\\:a-cA-C \\x00]{0,12}") {
            if let Some(path) = safe_path(name.as_bytes()) {
                prop_assert!(path.components().all(|c| matches!(c, Component::Normal(_))));
                prop_assert!(Path::new("/base").join(&path).starts_with("/base"));
            }
        }
    }
}
