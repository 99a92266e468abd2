//! What is sent to rank 0 to be kept, and what it sends to others to go on from.
//!
//! A parcel describes itself: text, and the layouts of its tensors; the tensors follow in
//! pieces.

use hwa_core::Weights;
use serde::{Deserialize, Serialize};

use super::error::RanksError;
use super::layout::{Assembly, Layout};
use super::wire::{BUFFER, ELEMENT, Wire};

/// Elements of a piece: sent, received and buffered alike, it stays below [`BUFFER`].
const PIECE: usize = BUFFER / ELEMENT / 4;

/// Longer descriptions are nonsense.
const LONGEST_HEADER: usize = BUFFER;

/// Some sets of tensors, and what is to be known about them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parcel {
    /// What it is, as JSON.
    pub(crate) about: String,
    /// The tensors.
    pub(crate) tensors: Vec<Weights>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    about: String,
    layouts: Vec<Layout>,
}

impl Parcel {
    /// The description, as it is sent first.
    pub(crate) fn header(&self) -> Vec<u8> {
        let layouts = self.tensors.iter().map(Layout::of).collect();
        let header = Header { about: self.about.clone(), layouts };
        serde_json::to_vec(&header).unwrap_or_default()
    }

    /// Sends it. The receiver knows the length of the header.
    pub(crate) fn send(&self, wire: &mut Wire<'_>, to: usize) -> Result<(), RanksError> {
        wire.exchange(&[(to, &self.header())], &mut [])?;
        let mut bytes = Vec::new();
        for weights in &self.tensors {
            let layout = Layout::of(weights);
            for start in (0..layout.num_elements()).step_by(PIECE) {
                let end = (start + PIECE).min(layout.num_elements());
                bytes.clear();
                layout.encode(weights, &(start..end), &mut bytes)?;
                wire.exchange(&[(to, &bytes)], &mut [])?;
            }
        }
        Ok(())
    }

    /// Receives what [`Self::send`] sends.
    pub(crate) fn receive(
        wire: &mut Wire<'_>,
        from: usize,
        header: usize,
    ) -> Result<Self, RanksError> {
        let hosts = wire.terms().hosts.clone();
        let garbled = |reason: String| RanksError::garbled(from, reason).at(&hosts);
        if header > LONGEST_HEADER {
            return Err(garbled(format!("a description of {header} bytes")));
        }
        let mut bytes = vec![0; header];
        wire.exchange(&[], &mut [(from, &mut bytes)])?;
        let header =
            serde_json::from_slice::<Header>(&bytes).map_err(|e| garbled(e.to_string()))?;
        let mut tensors = Vec::new();
        for layout in header.layouts {
            if !layout.is_sound() {
                return Err(garbled("its tensors do not follow each other".to_owned()));
            }
            let mut assembly = Assembly::new(layout);
            let elements = assembly.layout().num_elements();
            for start in (0..elements).step_by(PIECE) {
                let end = (start + PIECE).min(elements);
                bytes.resize(assembly.layout().num_bytes(&(start..end)), 0);
                wire.exchange(&[], &mut [(from, &mut bytes)])?;
                assembly.push(end - start, &bytes);
            }
            tensors.push(assembly.finish()?);
        }
        Ok(Self { about: header.about, tensors })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::super::layout::tests::sample;
    use super::super::rehearsal::rehearsal;
    use super::*;

    #[test]
    fn a_parcel_arrives_as_it_was_sent() {
        let parcel = Parcel {
            about: "what it is".to_owned(),
            tensors: vec![sample(1), Weights::new(), sample(2)],
        };
        let mut ranks = rehearsal(2);
        let (mut second, mut first) = (ranks.remove(1), ranks.remove(0));
        let length = parcel.header().len();
        let arrived = thread::scope(|scope| {
            let sent = scope.spawn(|| parcel.send(&mut Wire::new(&mut second, Duration::MAX), 0));
            let arrived = Parcel::receive(&mut Wire::new(&mut first, Duration::MAX), 1, length);
            sent.join().unwrap().unwrap();
            arrived.unwrap()
        });
        assert_eq!(arrived, parcel);
    }

    #[test]
    fn a_description_that_makes_no_sense_is_refused() {
        let mut ranks = rehearsal(2);
        let (mut second, mut first) = (ranks.remove(1), ranks.remove(0));
        let mut receive = |sent: &[u8], length: usize| {
            Wire::new(&mut second, Duration::MAX).exchange(&[(0, sent)], &mut []).unwrap();
            Parcel::receive(&mut Wire::new(&mut first, Duration::MAX), 1, length)
                .unwrap_err()
                .to_string()
        };
        assert!(receive(b"{}", 2).contains("missing field"), "no fields");
        assert!(receive(b"{\"about\"", 3).contains("8 bytes, expected 3"), "another length");
        assert!(receive(b"x", usize::MAX).contains("a description of"), "endless");
    }
}
