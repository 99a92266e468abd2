//! What was measured before: `gradients.jsonl`, a line for each point with what was asked.
//!
//! The file is replaced as a whole after every point, so that an interrupt at any moment leaves
//! one that can be read. Points that were asked for otherwise stay in it, and a file that holds
//! anything else is refused: it is not ours to replace.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use hwa_core::Weights;
use hwa_store::{read_to_string, write_atomically};
use hwa_study::Gradients;
use hwa_train::Convolution;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output::tell;
use crate::shelf::digest;

const FILE: &str = "gradients.jsonl";

/// Everything that a measurement depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// The name of the weights.
    pub(crate) weights: String,
    /// What is in them, see [`content`].
    pub(crate) content: String,
    pub(crate) network: String,
    pub(crate) convolution: Convolution,
    /// The data set and how its images are seen, wherever it lies.
    pub(crate) data: serde_json::Value,
    /// The training images that there are.
    pub(crate) population: usize,
    /// Those that are looked at.
    pub(crate) images: usize,
    pub(crate) batch: NonZeroUsize,
    pub(crate) augmented: bool,
    pub(crate) rate: f64,
    pub(crate) steps: NonZeroUsize,
    pub(crate) seed: u64,
    /// The instructions that computed it.
    pub(crate) arithmetic: String,
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
    lines: Vec<Line>,
}

impl Kept {
    /// Reads what is in a folder. A last line that was torn off is dropped, and that is told.
    pub(crate) fn open(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(FILE);
        let text = if path.exists() { read_to_string(&path)? } else { String::new() };
        let mut lines = Vec::new();
        for (number, line) in text.split_inclusive('\n').enumerate() {
            let place = || format!("{}, line {}", path.display(), number + 1);
            match serde_json::from_str(line) {
                Ok(line) => lines.push(line),
                Err(error) if error.is_eof() && !line.ends_with('\n') => {
                    tell(format_args!("{}: is torn off and measured again", place()));
                }
                Err(error) => {
                    let place = format!("{}: expected a point of `hwa analyze`", place());
                    return Err(Failure::Run(anyhow::Error::new(error).context(place)));
                }
            }
        }
        Ok(Self { path, lines })
    }

    /// What was found when this was asked.
    pub(crate) fn find(&self, asked: &Asked) -> Option<Gradients> {
        self.lines.iter().find(|line| line.asked == *asked).map(|line| line.found)
    }

    /// Keeps what was found.
    pub(crate) fn add(&mut self, asked: Asked, found: Gradients) -> Result<(), Failure> {
        self.lines.push(Line { asked, found });
        let lines: Vec<String> =
            self.lines.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let write = |file: &mut dyn std::io::Write| {
            lines.iter().try_for_each(|line| writeln!(file, "{line}"))
        };
        Ok(write_atomically(&self.path, write)?)
    }

    /// What to do after an interrupt.
    pub(crate) fn advice(&self) -> String {
        let (count, path) = (self.lines.len(), self.path.display());
        format!("{count} points are in {path}, and the same command goes on from there")
    }
}

/// What is in weights, as a word.
pub(crate) fn content(weights: &Weights) -> String {
    format!("{:08x}", digest(weights))
}

#[cfg(test)]
mod tests {
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
            network: "resnet8".to_owned(),
            convolution: Convolution::Winograd,
            data: serde_json::json!({ "dataset": "digits" }),
            population: 100,
            images: 40,
            batch: NonZeroUsize::MIN,
            augmented: false,
            rate,
            steps: NonZeroUsize::MIN,
            seed: 1,
            arithmetic: "avx2".to_owned(),
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

    #[test]
    fn what_was_asked_exactly_so_is_found_again_and_a_torn_line_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let found = Gradients {
            risk: 0.1,
            squared_norm: 1.0 / 3.0,
            noise: 0.2,
            covariance: Some([[0.1, 0.2], [0.2, 1.0 / 3.0]]),
            lipschitz: 7.0,
            images: 40,
            batch: 20,
            steps: 1,
        };
        let mut kept = Kept::open(folder.path()).unwrap();
        kept.add(asked(0.1), found).unwrap();
        kept.add(asked(1.0 / 3.0), Gradients { risk: 0.2, ..found }).unwrap();
        let kept = Kept::open(folder.path()).unwrap();
        assert_eq!(kept.find(&asked(0.1)), Some(found));
        assert_eq!(kept.find(&asked(1.0 / 3.0)).unwrap().risk, 0.2);
        assert_eq!(kept.find(&asked(0.3)), None);
        let path = folder.path().join(FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
        let torn = Kept::open(folder.path()).unwrap();
        assert_eq!(torn.find(&asked(0.1)), Some(found));
        assert_eq!(torn.find(&asked(1.0 / 3.0)), None);
        // Only its end is missing.
        std::fs::write(&path, text.trim_end()).unwrap();
        let whole = Kept::open(folder.path()).unwrap();
        assert!(whole.find(&asked(1.0 / 3.0)).is_some());

        for strange in ["no JSON\n", "no JSON", "\n", "{\"point\":1}\n", "{\"point\":1}"] {
            std::fs::write(&path, format!("{text}{strange}")).unwrap();
            let error = Kept::open(folder.path()).err().unwrap().to_string();
            let expected = format!("{}, line 3: expected a point", path.display());
            assert!(error.starts_with(&expected), "{error}");
        }
        std::fs::write(&path, format!("{{\"asked\":\n{text}")).unwrap();
        let error = Kept::open(folder.path()).err().unwrap().to_string();
        assert!(error.contains("line 1: expected a point"), "torn, but not at the end: {error}");
    }
}
