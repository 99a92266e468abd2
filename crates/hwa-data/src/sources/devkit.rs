//! The development kit that ImageNet's authors publish beside the images: numbers of the
//! validation images' classes, and which class has which number.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::error::DataError;
use crate::matlab::{Value, read_structs};

/// The folder that the kit unpacks to.
pub(super) const FOLDER: &str = "ILSVRC2012_devkit_t12";

/// The kit's folder.
#[derive(Debug)]
pub(super) struct Devkit {
    folder: PathBuf,
}

impl Devkit {
    /// Looks for the kit beside `train` and `val`.
    pub(super) fn find(root: &Path) -> Option<Self> {
        let folder = root.join(FOLDER);
        folder.is_dir().then_some(Self { folder })
    }

    /// The list of the validation images' numbers, one a line in the order of the images.
    pub(super) fn ground_truth(&self) -> PathBuf {
        self.folder.join("data").join("ILSVRC2012_validation_ground_truth.txt")
    }

    /// The names of the classes (WordNet's, `n02119789`) by their numbers. Synsets that have
    /// others below them are numbered as well, but no image is of one.
    pub(super) fn leaves(&self) -> Result<HashMap<u32, String>, DataError> {
        let path = self.folder.join("data").join("meta.mat");
        let synsets = read_structs(&path, "synsets", ["ILSVRC2012_ID", "WNID", "num_children"])?;
        let wrong = |reason| DataError::WrongContent { path: path.clone(), reason };
        let mut leaves = HashMap::new();
        for (place, synset) in (1..).zip(&synsets) {
            let Some((number, name, children)) = parts(synset) else {
                let reason = "has no number, no name like n02119789 or no number of children";
                return Err(wrong(format!("synset {place} of {} {reason}", synsets.len())));
            };
            if children > 0 {
                continue;
            }
            if let Some(other) = leaves.insert(number, name.to_owned()) {
                return Err(wrong(format!("`{other}` and `{name}` have the number {number}")));
            }
        }
        Ok(leaves)
    }
}

fn parts([number, name, children]: &[Value; 3]) -> Option<(u32, &str, u32)> {
    let name = name.text().filter(|name| is_synset(name))?;
    Some((number.whole()?, name, children.whole()?))
}

/// Whether this is the name of a noun in WordNet.
fn is_synset(name: &str) -> bool {
    let digits = name.strip_prefix('n').unwrap_or_default();
    digits.len() == 8 && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// Checks that images are named and numbered as published. The kit knows them by their order
/// alone: one that is missing would give all that follow the class of another.
pub(super) fn ensure_published_names(images: &[PathBuf]) -> Result<(), DataError> {
    for (number, image) in (1..).zip(images) {
        let expected = format!("ILSVRC2012_val_{number:08}");
        if image.file_stem().is_none_or(|stem| stem != expected.as_str()) {
            let reason = format!("expected {expected} here, in the order of the images' names");
            return Err(DataError::WrongContent { path: image.clone(), reason });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::folder;

    /// The leaves of a small kit, of whose meta.mat something was changed.
    fn leaves(change: impl Fn(&mut [u8])) -> Result<Vec<(u32, String)>, String> {
        let mut meta = include_bytes!("../../tests/golden/meta.mat").to_vec();
        change(&mut meta);
        let dir = folder([(format!("{FOLDER}/data/meta.mat"), meta)]);
        let leaves = Devkit::find(dir.path()).unwrap().leaves();
        let mut leaves: Vec<_> = leaves.map_err(|error| error.to_string())?.into_iter().collect();
        leaves.sort_unstable();
        Ok(leaves)
    }

    #[test]
    fn synsets_with_others_below_them_are_no_classes() {
        let expected = [(1, "n02119789"), (2, "n07753592"), (3, "n02100735")];
        let expected = expected.map(|(number, name)| (number, name.to_owned()));
        assert_eq!(leaves(|_| ()).unwrap(), expected);
    }

    #[test]
    fn numbers_and_names_that_are_none_are_refused() {
        // Where the first synset has its number, a double; the class and the text of its name.
        let (number, class, name) = (0x1d8, 0x1f0, 0x218);
        let set = |value: f64| {
            leaves(|meta| meta[number..number + 8].copy_from_slice(&value.to_le_bytes()))
        };
        let twice = set(3.0).unwrap_err();
        assert!(twice.ends_with("meta.mat`: `n02119789` and `n02100735` have the number 3"));
        assert_eq!(set(9.0).unwrap()[2], (9, "n02119789".to_owned()));
        let name = [(class, 6), (name, b'x'), (name + 3, b'x')];
        let name = name.map(|(place, byte)| leaves(|meta| meta[place] = byte));
        for wrong in [set(-1.0), set(1.5)].into_iter().chain(name) {
            let wrong = wrong.unwrap_err();
            assert!(wrong.contains("synset 1 of 4 has no number, no name like"), "{wrong}");
        }
    }

    #[test]
    fn names_are_the_published_ones_without_a_gap() {
        let named = |names: &[&str]| {
            let images: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
            ensure_published_names(&images).map_err(|error| error.to_string())
        };
        let [one, two] = ["val/ILSVRC2012_val_00000001.JPEG", "val/ILSVRC2012_val_00000002.jpg"];
        assert_eq!(named(&[one, two]), Ok(()));
        let gap = "`val/ILSVRC2012_val_00000002.jpg`: expected ILSVRC2012_val_00000001 here";
        assert!(named(&[two]).unwrap_err().starts_with(gap));
        assert!(named(&[one, "val/2.JPEG"]).is_err());
    }
}
