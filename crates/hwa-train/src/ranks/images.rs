//! Images that a rank cannot read, compared with those of the others.
//!
//! Whoever leaves an image out trains on another in its place. All ranks must do so, or the
//! outcome depends on which models are where. So they tell each other before they meet, and a
//! rank whose file is another ends the run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::courier::Ranks;
use super::error::RanksError;
use super::notice::Notice;

/// An image that a rank has left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unread {
    /// Its path below the folder of the data set.
    name: String,
    /// Why.
    reason: String,
    /// A checksum of its file, if it has one that can be opened.
    checksum: Option<u32>,
}

/// Bytes of names and reasons that go together: also where each of them takes six as JSON, they are
/// less than any message may have.
const PART: usize = 1 << 20;

/// The images of a rank, as far as they concern the others.
pub trait Images: Send {
    /// How many were left out so far. It is asked for whenever models meet.
    fn num_left_out(&self) -> usize;

    /// Those that were left out so far, by their paths below the folder of the data set, and why.
    fn left_out(&self) -> BTreeMap<String, String>;

    /// A checksum of the file of that name, if there is one that can be opened.
    fn checksum(&self, name: &str) -> Option<u32>;
}

impl Ranks<'_> {
    /// Compares the images that are left out with those of the other ranks.
    pub fn compare(&mut self, images: Box<dyn Images>) {
        self.images = Some(images);
    }

    /// The images that were left out as far as this rank has heard, and why. Rank 0 hears of all.
    pub fn left_out(&self) -> &BTreeMap<String, String> {
        &self.left_out
    }

    /// Tells rank 0 what was left out here since the last time, and rank 0 all others.
    pub(super) fn tell_left_out(&mut self) -> Result<(), RanksError> {
        let Some(images) = &self.images else { return Ok(()) };
        // First: what is left out meanwhile is told the next time.
        let count = images.num_left_out();
        if count == self.told_left_out {
            return Ok(());
        }
        self.told_left_out = count;
        let mut news = Vec::new();
        for (name, reason) in images.left_out() {
            if !self.left_out.contains_key(&name) {
                let checksum = images.checksum(&name);
                news.push(Unread { name, reason, checksum });
            }
        }
        self.note(&news);
        for part in in_parts(news) {
            match self.rank() {
                0 => self.tell_all(&Notice::LeftOut(part))?,
                _ => self.tell(0, &Notice::LeftOut(part))?,
            }
        }
        Ok(())
    }

    /// Makes sure that what another rank has left out is the same here.
    pub(super) fn compare_left_out(
        &mut self,
        from: usize,
        theirs: Vec<Unread>,
    ) -> Result<(), RanksError> {
        let Some(images) = &self.images else { return Ok(()) };
        let other = theirs.iter().find(|image| images.checksum(&image.name) != image.checksum);
        if let Some(Unread { name, reason, .. }) = other {
            let (who, name, reason) = (self.who(from), name.clone(), reason.clone());
            return Err(RanksError::OtherImage { who, name, reason });
        }
        self.note(&theirs);
        if self.rank() == 0 {
            let others = self.wire.others().filter(|rank| *rank != from);
            let notice = Notice::LeftOut(theirs);
            return others.into_iter().try_for_each(|rank| self.tell(rank, &notice));
        }
        Ok(())
    }

    fn note(&mut self, images: &[Unread]) {
        for Unread { name, reason, .. } in images {
            self.left_out.insert(name.clone(), reason.clone());
        }
    }
}

/// The images in parts that can be sent, of one at least.
fn in_parts(images: Vec<Unread>) -> Vec<Vec<Unread>> {
    let (mut parts, mut bytes): (Vec<Vec<Unread>>, usize) = (Vec::new(), 0);
    for image in images {
        let mine = image.name.len() + image.reason.len();
        match parts.last_mut() {
            Some(part) if bytes + mine <= PART => {
                bytes += mine;
                part.push(image);
            }
            _ => {
                bytes = mine;
                parts.push(vec![image]);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::rehearsal::rehearsal;
    use super::super::transport::Transport;
    use super::super::wire::BUFFER;
    use super::*;

    /// So many images that were left out, with names of a KiB.
    struct Many {
        count: usize,
        /// Whether anybody may look at them.
        secret: bool,
    }

    impl Images for Many {
        fn num_left_out(&self) -> usize {
            self.count
        }

        fn left_out(&self) -> BTreeMap<String, String> {
            assert!(!self.secret, "none was left out since");
            let name = |number| format!("{number:\u{1}>1024}");
            (0..self.count).map(|number| (name(number), String::new())).collect()
        }

        fn checksum(&self, _name: &str) -> Option<u32> {
            None
        }
    }

    #[test]
    fn many_images_come_in_parts_and_only_when_there_are_others() {
        let mut ends = rehearsal(2).into_iter();
        let (mut first, mut second) = (ends.next().unwrap(), ends.next().unwrap());
        let mut ranks = Ranks::new(&mut second, Duration::from_secs(60));
        // 5 MiB of names, in letters of which each takes six bytes.
        ranks.compare(Box::new(Many { count: 5 << 10, secret: false }));
        ranks.tell_left_out().unwrap();
        ranks.compare(Box::new(Many { count: 5 << 10, secret: true }));
        ranks.tell_left_out().unwrap();
        let (mut parts, mut images) = (0, 0);
        while let Some((from, bytes)) = first.poll().unwrap() {
            assert!(bytes.len() <= BUFFER);
            let Notice::LeftOut(part) = Notice::from_bytes(from, &bytes).unwrap() else {
                continue; // It may show that it is there.
            };
            (parts, images) = (parts + 1, images + part.len());
        }
        assert_eq!((parts, images), (5, 5 << 10));
    }

    /// One image, which may be left out.
    struct One {
        checksum: u32,
        left_out: bool,
    }

    impl Images for One {
        fn num_left_out(&self) -> usize {
            self.left_out.into()
        }

        fn left_out(&self) -> BTreeMap<String, String> {
            let image = ("a/1.jpg".to_owned(), "empty".to_owned());
            self.left_out.then_some(image).into_iter().collect()
        }

        fn checksum(&self, name: &str) -> Option<u32> {
            (name == "a/1.jpg").then_some(self.checksum)
        }
    }

    #[test]
    fn all_ranks_hear_of_an_image_and_whoever_has_another_says_so() {
        let mut ends = rehearsal(3);
        let mut ranks: Vec<Ranks<'_>> =
            ends.iter_mut().map(|end| Ranks::new(end, Duration::from_secs(60))).collect();
        for (rank, (checksum, left_out)) in
            [(5, false), (5, true), (6, false)].into_iter().enumerate()
        {
            ranks[rank].compare(Box::new(One { checksum, left_out }));
            ranks[rank].tell_left_out().unwrap();
        }
        ranks[1].tell_left_out().unwrap();
        let mut heed = |rank: usize| match ranks[rank].next_notice().unwrap() {
            Some((from, Notice::LeftOut(images))) => ranks[rank].compare_left_out(from, images),
            other => panic!("{other:?}"),
        };
        heed(0).unwrap();
        let error = heed(2).unwrap_err().to_string();
        assert!(error.starts_with("rank 0 has left out `a/1.jpg` (empty)"), "{error}");
        assert_eq!(ranks[0].left_out().len(), 1);
        assert_eq!(ranks[0].next_notice().unwrap(), None, "it is told once");
    }
}
