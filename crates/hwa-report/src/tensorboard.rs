//! Event files that TensorBoard reads.
//!
//! A file is a row of records (a length, a message, and checksums of both); a message is an
//! `Event` of TensorFlow's protocol buffers. Of these only a version and scalars are needed, so
//! they are written here by hand.

use std::io::{self, Write};

use hwa_train::{Evaluation, Event, ModelReport};

/// A scalar: its tag, and its value.
pub type Scalar = (String, f64);

/// What is written of an event: the step, and scalars; nothing of most.
pub fn scalars(event: &Event) -> Option<(u64, Vec<Scalar>)> {
    match event {
        Event::CycleEnded(ended) => {
            let mean = |value: fn(&ModelReport) -> f64| {
                let sum: f64 = ended.models.iter().map(value).sum();
                sum / ended.models.len().max(1) as f64
            };
            let mut scalars = vec![
                ("loss/train".to_owned(), mean(|model| model.loss)),
                ("rate".to_owned(), ended.rate),
            ];
            if ended.models.len() > 1 {
                scalars.push(("distance to average".to_owned(), mean(|model| model.distance)));
            }
            let speed = ended.models.iter().map(|m| m.time.images_per_second).sum();
            scalars.push(("images per second".to_owned(), speed));
            Some((ended.step, scalars))
        }
        _ => None,
    }
}

/// The scalars of a judgement, whose event does not know its step.
pub fn judged(judged: &hwa_train::Judged) -> Vec<Scalar> {
    let mut scalars = Vec::new();
    let mut add = |level: String, evaluation: &Evaluation| {
        scalars.push((format!("accuracy/{level}"), evaluation.top1));
        scalars.push((format!("loss/{level}"), evaluation.loss));
    };
    for (number, inner) in judged.inner.iter().enumerate() {
        add(format!("inner {number}"), inner);
    }
    if let Some(outer) = &judged.outer {
        add("outer".to_owned(), outer);
    }
    for window in &judged.hwa {
        let length = window.length.map_or("all".to_owned(), |length| length.to_string());
        add(format!("window {length}"), &window.evaluation);
    }
    if let Some(train) = &judged.train {
        add("training images".to_owned(), train);
    }
    scalars
}

/// Writes an event file.
pub struct EventFile<W> {
    writer: W,
}

impl<W: Write> EventFile<W> {
    /// Begins one; times are seconds since 1970.
    pub fn new(writer: W, time: f64) -> io::Result<Self> {
        let mut file = Self { writer };
        let mut message = Vec::new();
        double(&mut message, 1, time);
        bytes(&mut message, 3, b"brain.Event:2");
        file.record(&message)?;
        Ok(file)
    }

    /// Adds scalars of a step.
    pub fn add(&mut self, step: u64, time: f64, scalars: &[Scalar]) -> io::Result<()> {
        let mut summary = Vec::new();
        for (tag, value) in scalars {
            let mut scalar = Vec::new();
            bytes(&mut scalar, 1, tag.as_bytes());
            key(&mut scalar, 2, 5);
            scalar.extend((*value as f32).to_le_bytes());
            bytes(&mut summary, 1, &scalar);
        }
        let mut message = Vec::new();
        double(&mut message, 1, time);
        key(&mut message, 2, 0);
        varint(&mut message, step);
        bytes(&mut message, 5, &summary);
        self.record(&message)
    }

    fn record(&mut self, message: &[u8]) -> io::Result<()> {
        let length = (message.len() as u64).to_le_bytes();
        self.writer.write_all(&length)?;
        self.writer.write_all(&masked(&length).to_le_bytes())?;
        self.writer.write_all(message)?;
        self.writer.write_all(&masked(message).to_le_bytes())?;
        self.writer.flush()
    }
}

/// A field's number and how it is written.
fn key(message: &mut Vec<u8>, number: u64, kind: u64) {
    varint(message, number << 3 | kind);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

fn double(message: &mut Vec<u8>, number: u64, value: f64) {
    key(message, number, 1);
    message.extend(value.to_le_bytes());
}

fn bytes(message: &mut Vec<u8>, number: u64, value: &[u8]) {
    key(message, number, 2);
    varint(message, value.len() as u64);
    message.extend(value);
}

/// The checksum of a record: of data that may hold checksums itself.
fn masked(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The checksum of Castagnoli, bit by bit: there are a few hundred bytes in a cycle.
fn crc32c(data: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use hwa_train::{CycleEnded, Judged, WindowEvaluation};

    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    /// `tests/golden/make_tensorboard.py` made the file.
    #[test]
    fn files_are_those_of_tensorboard_byte_for_byte() {
        let scalar = |tag: &str, value| (tag.to_owned(), value);
        let mut found = Vec::new();
        let mut file = EventFile::new(&mut found, 1.5).unwrap();
        file.add(79, 2.25, &[scalar("loss/train", 4.4498), scalar("rate", 0.0999)]).unwrap();
        let judged = [scalar("accuracy/HWA, window 20", 12.5), scalar("loss/outer", f64::INFINITY)];
        file.add(158, 3.0, &judged).unwrap();
        file.add(300, 4.0, &[scalar(&"x".repeat(200), -1.0)]).unwrap();
        assert_eq!(found, include_bytes!("../tests/golden/scalars.tfevents"));
    }

    #[test]
    fn events_become_scalars() {
        let model = |loss| ModelReport { loss, distance: 2.0, ..ModelReport::default() };
        let ended = CycleEnded {
            step: 79,
            rate: 0.1,
            models: vec![model(1.0), model(3.0)],
            ..CycleEnded::default()
        };
        let (step, found) = scalars(&Event::CycleEnded(ended)).unwrap();
        assert_eq!((step, &found[0]), (79, &("loss/train".to_owned(), 2.0)));
        assert_eq!(scalars(&Event::StoppedEarly { cycle: 1 }), None);
        let evaluation = Evaluation { top1: 50.0, loss: 1.5, ..Evaluation::default() };
        let window = WindowEvaluation { length: Some(20), evaluation, ..Default::default() };
        let verdict = Judged { outer: Some(evaluation), hwa: vec![window], ..Judged::default() };
        let tags: Vec<String> = judged(&verdict).into_iter().map(|(tag, _)| tag).collect();
        let expected = ["accuracy/outer", "loss/outer", "accuracy/window 20", "loss/window 20"];
        assert_eq!(tags, expected);
    }
}
