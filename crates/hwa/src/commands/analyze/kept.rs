//! What was measured before: `gradients.jsonl`, a line for each point with what was asked.
//!
//! It is a [`Journal`]: its first line has the version of the format, and there is one writer, so
//! that two analyses do not lose each other's points. Points that were asked for otherwise stay
//! in it. Those of an older version lack figures, and are measured again. A file that holds
//! anything else is refused: it is not ours to replace.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use hwa_core::Weights;
use hwa_study::Gradients;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::journal::Journal;
use crate::output::tell;
use crate::shelf::digest;

const FILE: &str = "gradients.jsonl";
/// What the points are of. 1 had no first line, no error of L and no curvature.
const VERSION: u64 = 2;

/// Everything that a measurement depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// The name of the weights.
    pub(crate) weights: String,
    /// What is in them, see [`content`].
    pub(crate) content: String,
    /// Network, images and arithmetic, see [`Studied::identity`](crate::studied::Studied::identity).
    pub(crate) of: Value,
    /// The images that are looked at.
    pub(crate) images: usize,
    pub(crate) augmented: bool,
    pub(crate) rate: f64,
    pub(crate) steps: NonZeroUsize,
}

/// A line of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Line {
    asked: Asked,
    found: Gradients,
}

/// What was measured before, and since.
pub(crate) struct Kept {
    path: PathBuf,
    journal: Journal,
    lines: Vec<Line>,
}

impl Kept {
    /// Reads what is in a folder, for one analysis at a time.
    pub(crate) fn open(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(FILE);
        if is_older(&path) {
            tell(format_args!("{}: of an older version, and measured again", path.display()));
            Journal::clear(&path)?;
        }
        let identity = json!({ "points": "hwa analyze", "version": VERSION });
        let (journal, lines) = Journal::open(&path, &identity)?;
        Ok(Self { path, journal, lines })
    }

    /// What was found when this was asked.
    pub(crate) fn find(&self, asked: &Asked) -> Option<Gradients> {
        self.lines.iter().find(|line| line.asked == *asked).map(|line| line.found)
    }

    /// Keeps what was found.
    pub(crate) fn add(&mut self, asked: Asked, found: Gradients) -> Result<(), Failure> {
        let line = Line { asked, found };
        self.journal.add(&line)?;
        self.lines.push(line);
        Ok(())
    }

    /// What to do after an interrupt.
    pub(crate) fn advice(&self) -> String {
        let (count, path) = (self.lines.len(), self.path.display());
        format!("{count} points are in {path}, and the same command goes on from there")
    }
}

/// Whether a file begins as `hwa analyze` has begun it in an older version: with a version below
/// this one, or with a point.
fn is_older(path: &Path) -> bool {
    let mut line = String::new();
    let read = File::open(path).and_then(|file| BufReader::new(file).read_line(&mut line));
    let Ok(Value::Object(first)) =
        read.map_err(|_| ()).and_then(|_| serde_json::from_str(&line).map_err(|_| ()))
    else {
        return false;
    };
    let is_point = first.contains_key("asked") && first.contains_key("found");
    let version = first.get("points").and(first.get("version")).and_then(Value::as_u64);
    is_point || version.is_some_and(|version| version < VERSION)
}

/// What is in weights, as a word.
pub(crate) fn content(weights: &Weights) -> String {
    format!("{:08x}", digest(weights))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hwa_core::Tensor;

    use super::*;

    fn weights(values: [f32; 2]) -> Weights {
        let mut weights = Weights::new();
        weights.insert("w", Tensor::parameter(vec![2], values.to_vec()).unwrap()).unwrap();
        weights
    }

    fn asked(rate: f64) -> Asked {
        Asked {
            weights: "outer:1".to_owned(),
            content: content(&weights([1.0, 2.0])),
            of: json!({ "network": "resnet8" }),
            images: 40,
            augmented: false,
            rate,
            steps: NonZeroUsize::MIN,
        }
    }

    #[test]
    fn weights_are_told_apart_by_every_value_and_its_place() {
        let all = [[1.0, 2.0], [2.0, 1.0], [-1.0, -2.0], [1.0, 2.0000002]].map(weights);
        let mut numbers = all.map(|weights| content(&weights)).to_vec();
        numbers.sort();
        numbers.dedup();
        assert_eq!(numbers.len(), 4);
        assert_eq!(content(&weights([1.0, 2.0])), content(&weights([1.0, 2.0])));
    }

    fn found(risk: f64) -> Gradients {
        Gradients {
            risk,
            squared_norm: 1.0 / 3.0,
            noise: 0.2,
            covariance: Some([[0.1, 0.2], [0.2, 1.0 / 3.0]]),
            lipschitz: 7.0,
            lipschitz_error: None,
            curvature: -0.1,
            curvature_error: Some(0.1),
            images: 40,
            batch: 20,
            steps: 1,
        }
    }

    #[test]
    fn what_was_asked_exactly_so_is_found_again_and_a_torn_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::open(folder.path()).unwrap();
        kept.add(asked(0.1), found(0.1)).unwrap();
        kept.add(asked(1.0 / 3.0), found(0.2)).unwrap();
        drop(kept);
        let kept = Kept::open(folder.path()).unwrap();
        assert_eq!(kept.find(&asked(0.1)), Some(found(0.1)));
        assert_eq!(kept.find(&asked(1.0 / 3.0)), Some(found(0.2)));
        assert_eq!(kept.find(&asked(0.3)), None);
        drop(kept);
        let path = folder.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 9]).unwrap();
        let torn = Kept::open(folder.path()).unwrap();
        assert_eq!(torn.find(&asked(0.1)), Some(found(0.1)));
        assert_eq!(torn.find(&asked(1.0 / 3.0)), None);
    }

    #[test]
    fn a_second_analysis_is_refused_while_the_first_one_writes() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Kept::open(folder.path()).unwrap();
        first.add(asked(0.1), found(0.1)).unwrap();
        let error = Kept::open(folder.path()).err().unwrap().to_string();
        assert!(error.contains("in use"), "{error}");
        first.add(asked(0.2), found(0.2)).unwrap();
        drop(first);
        let after = Kept::open(folder.path()).unwrap();
        assert!(after.find(&asked(0.1)).is_some() && after.find(&asked(0.2)).is_some());
    }

    #[test]
    fn points_of_an_older_version_are_measured_again_and_anything_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let older =
            ["{\"asked\":{},\"found\":{}}\n", "{\"points\":\"hwa analyze\",\"version\":1}\n"];
        for text in older {
            fs::write(&path, format!("{text}{{\"asked\":{{}},\"found\":{{}}}}\n")).unwrap();
            let mut kept = Kept::open(folder.path()).unwrap();
            assert!(kept.lines.is_empty());
            kept.add(asked(0.1), found(0.1)).unwrap();
            drop(kept);
            assert!(Kept::open(folder.path()).unwrap().find(&asked(0.1)).is_some());
        }
        let newer = "{\"points\":\"hwa analyze\",\"version\":3}\n";
        for strange in ["no JSON\n", "no JSON", "\n", "{\"point\":1}\n", newer] {
            fs::write(&path, strange).unwrap();
            assert!(Kept::open(folder.path()).is_err(), "{strange}");
            assert_eq!(fs::read_to_string(&path).unwrap(), strange);
        }
    }
}
