//! Whether two copies of a data set are the same, without sending either.

use std::path::{Component, Path};

use rayon::prelude::*;

use crate::error::DataError;
use crate::files::bytes_of;
use crate::sources::Source;
use crate::subset::Subset;

impl Subset {
    /// A checksum of every example, in their order: of its pixels and its class; where images are
    /// files, of their names, sizes and classes. Two copies with the same ones are the same, as
    /// far as can be told without reading the files.
    pub fn checksums(&self) -> Result<Vec<u32>, DataError> {
        let checksum = |index: &usize| self.dataset().checksum(*index);
        match self.dataset().decoders() {
            None => self.indices().iter().map(checksum).collect(),
            // A file system may take its time over each, and answers many at once.
            Some(pool) => pool.install(|| self.indices().par_iter().map(checksum).collect()),
        }
    }

    /// The file of the `i`-th example below the folder of the data set, if it has one of its own.
    pub fn file(&self, i: usize) -> Option<&Path> {
        self.dataset().file(*self.indices().get(i)?)
    }
}

impl Source {
    /// A checksum of the bytes of an image file, by its path below [`Self::root`]; `None` if there
    /// is no such file or it cannot be read.
    pub fn file_checksum(&self, name: &Path) -> Option<u32> {
        let below = name.components().all(|part| matches!(part, Component::Normal(_)));
        let root = self.root().filter(|_| below)?;
        bytes_of(&root.join(name)).map(|bytes| crc32fast::hash(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::*;
    use crate::dataset::ImageShape;
    use crate::fixtures::{folder, images};
    use crate::memory::InMemory;
    use crate::options::OpenOptions;

    #[test]
    fn every_pixel_and_every_class_in_memory_counts() {
        let shape = ImageShape { height: 1, width: 2, channels: 1 };
        let sums = |pixels: Vec<u8>, labels: Vec<u32>| {
            let data = InMemory::new(shape, 2, pixels, labels).unwrap();
            Subset::all(Arc::new(data)).checksums().unwrap()
        };
        let (pixels, labels) = (vec![7; 400], vec![0; 200]);
        let whole = sums(pixels.clone(), labels.clone());
        for example in 0..200 {
            let (mut other_pixels, mut other_labels) = (pixels.clone(), labels.clone());
            other_pixels[2 * example + 1] = 8;
            other_labels[example] = 1;
            for other in [sums(other_pixels, labels.clone()), sums(pixels.clone(), other_labels)] {
                let differ = |i: &usize| other[*i] != whole[*i];
                assert_eq!((0..200).filter(differ).collect::<Vec<_>>(), [example]);
            }
        }
    }

    #[test]
    fn sizes_of_files_count_and_their_bytes_can_be_compared() {
        let dir = folder(images("a", 30).chain(images("b", 30)));
        let opened = || crate::open("folder", Some(dir.path()), &OpenOptions::default()).unwrap();
        let before = opened().splits.train.checksums().unwrap();
        let source = opened();
        let (train, name) = (&source.splits.train, source.splits.train.file(3).unwrap());
        let sum = source.file_checksum(name).unwrap();
        let path = dir.path().join(name);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(train.checksums().unwrap(), before, "of the same size");
        assert_ne!(source.file_checksum(name), Some(sum));
        bytes.push(0);
        fs::write(&path, &bytes).unwrap();
        let after = train.checksums().unwrap();
        let differ = |i: &usize| before[*i] != after[*i];
        assert_eq!((0..before.len()).filter(differ).collect::<Vec<_>>(), [3]);
        assert_eq!(source.file_checksum(Path::new("nothing.bmp")), None);
        assert_eq!(source.file_checksum(&path), None, "only what is below the root");
    }
}
