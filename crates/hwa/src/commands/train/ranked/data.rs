//! Whether all ranks have the same data.
//!
//! Before training they compare all of it: images in memory by their pixels, image files by their
//! names and sizes. Files whose bytes differ all the same are found when one cannot be read.

use std::collections::BTreeMap;
use std::path::Path;

use hwa_data::Source;
use hwa_train::{Blocks, Images, Ranks};
use serde::{Deserialize, Serialize};

use super::{Planned, told, understood};
use crate::failure::Failure;
use crate::left_out::LeftOut;

/// Checksums that ranks send each other: each of an equal part of the training images.
const PARTS: usize = 256;

/// What a rank has found in its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Found {
    /// Training, validation and test images.
    images: [usize; 3],
    classes: usize,
    /// Of every part of the training images.
    parts: Vec<u32>,
}

impl Found {
    fn new(source: &Source, checksums: &[u32]) -> Self {
        let Source { splits, num_classes, .. } = source;
        let part = |part| {
            let sums = checksums[Blocks::new(checksums.len(), PARTS).of(part)].iter();
            crc32fast::hash(&sums.flat_map(|sum| sum.to_le_bytes()).collect::<Vec<u8>>())
        };
        Self {
            images: [splits.train.len(), splits.validation.len(), splits.test.len()],
            classes: *num_classes,
            parts: (0..PARTS).map(part).collect(),
        }
    }

    /// The first part that is another; an error, if there is another number of anything.
    fn other_part(&self, theirs: &Self, who: &str) -> Result<Option<usize>, Failure> {
        let count = |found: &Self| {
            let ([train, validation, test], classes) = (found.images, found.classes);
            format!("{train} + {validation} + {test} images of {classes} classes")
        };
        if (self.images, self.classes) != (theirs.images, theirs.classes) {
            let (theirs, mine) = (count(theirs), count(self));
            return Err(other(format!("{who} has other data: {theirs}, rank 0 has {mine}")));
        }
        Ok((0..PARTS).find(|part| self.parts.get(*part) != theirs.parts.get(*part)))
    }
}

fn other(message: String) -> Failure {
    Failure::Run(anyhow::Error::msg(message))
}

/// Makes sure that all ranks have the same data, now and while they train. All call this at once.
pub(super) fn compare(plan: &Planned, ranks: &mut Ranks<'_>) -> Result<(), Failure> {
    let train = &plan.source.splits.train;
    let checksums = ranks.prepare(|| train.checksums())??;
    let mine = Found::new(&plan.source, &checksums);
    let all: Vec<Found> = understood(ranks.gather(told(&mine)?)?)?;
    // Only rank 0 has them.
    let mut differs = None;
    for (rank, theirs) in all.iter().enumerate() {
        let part = mine.other_part(theirs, &ranks.who(rank))?;
        differs = differs.or(part.map(|part| (rank, part)));
    }
    let differs: Option<(usize, usize)> = serde_json::from_str(&ranks.broadcast(told(&differs)?)?)?;
    if let Some((rank, part)) = differs {
        let range = Blocks::new(checksums.len(), PARTS).of(part);
        let all: Vec<Vec<u32>> = understood(ranks.gather(told(&&checksums[range.clone()])?)?)?;
        if ranks.rank() == 0 {
            let differ = |i: &usize| all[0].get(*i) != all[rank].get(*i);
            let image = range.start + (0..range.len()).find(differ).unwrap_or_default();
            let name = match train.file(image) {
                Some(file) => format!("`{}`", file.display()),
                None => format!("training image {image}"),
            };
            let who = ranks.who(rank);
            return Err(other(format!("{who} has another {name} than rank 0")));
        }
        // Rank 0 ends the run.
        ranks.broadcast(String::new())?;
    }
    ranks.compare(Box::new(Album(plan.source.clone())));
    Ok(())
}

/// The images of a rank, as others ask about them.
struct Album(Source);

impl Images for Album {
    fn num_left_out(&self) -> usize {
        self.0.num_unreadable()
    }

    fn left_out(&self) -> BTreeMap<String, String> {
        LeftOut::of(&self.0).into_files()
    }

    fn checksum(&self, name: &str) -> Option<u32> {
        self.0.file_checksum(Path::new(name))
    }
}

#[cfg(test)]
mod tests {
    use hwa_data::{DataError, OpenOptions, open};

    use super::*;

    #[test]
    fn one_image_of_many_that_is_another_is_in_the_part_that_differs() -> Result<(), DataError> {
        let source = open("digits", None, &OpenOptions::default())?;
        let checksums = source.splits.train.checksums()?;
        let mine = Found::new(&source, &checksums);
        let blocks = Blocks::new(checksums.len(), PARTS);
        for image in [0, 64, checksums.len() / 2 + 1, checksums.len() - 1] {
            let mut others = checksums.clone();
            others[image] ^= 1;
            let theirs = Found::new(&source, &others);
            let part = mine.other_part(&theirs, "rank 1").unwrap().unwrap();
            assert!(blocks.of(part).contains(&image));
        }
        assert_eq!(mine.other_part(&mine, "rank 1").unwrap(), None);
        let mut fewer = mine.clone();
        fewer.images[2] -= 1;
        let error = mine.other_part(&fewer, "rank 1 on b").unwrap_err().to_string();
        assert!(error.starts_with("rank 1 on b has other data: "), "{error}");
        Ok(())
    }
}
