//! Weights by name: those that a run keeps, or those of a file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hwa_core::{HwaWeights, OuterWeights, Role, Weights, WindowSpec};
use hwa_nn::{Head, ModelSpec, Task};
use hwa_store::{CheckpointStore, InnerPosition, read_tensors};
use hwa_study::StudyError;
use hwa_train::{has_state, last_models};

use crate::failure::Failure;
use crate::opened::read_weights;
use crate::pages;

/// What can be written where weights are named.
pub(crate) const NAMES: &str = "\
Weights are named
  best            what validation chose
  outer:E         the average of the models after cycle E
  hwa:E           the run's window after cycle E; hwa:E:I is a window of I cycles
  inner:E:K       model K at the end of cycle E; inner:E:K:S after S steps of training.
                  They are there if checkpoints.inner_cycles has cycle E, and of the
                  last cycle of a finished run
  a/file.pt       a file of safetensors or PyTorch
outer and hwa alone are those of the last cycle.";

/// The same in a line.
const EXPECTED: &str = "best, outer, outer:CYCLE, hwa, hwa:CYCLE, hwa:CYCLE:LENGTH, \
                        inner:CYCLE:MODEL, inner:CYCLE:MODEL:STEP, or a file";

/// Weights by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    /// The chosen weights.
    Best,
    /// Outer weights, of the last cycle or another.
    Outer(Option<usize>),
    /// The mean of a window: its last cycle, and its length if it is not the run's.
    Hwa(Option<usize>, Option<usize>),
    /// A model at the end of a cycle, or after so many steps.
    Inner(usize, usize, Option<u64>),
    /// A file.
    File(PathBuf),
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(':');
        let word = parts.next().unwrap_or_default();
        let numbers: Result<Vec<u64>, _> = parts.map(str::parse).collect();
        let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        match (word, numbers.as_deref()) {
            ("best", Ok([])) => Ok(Self::Best),
            ("outer", Ok([])) => Ok(Self::Outer(None)),
            ("outer", Ok([cycle])) => Ok(Self::Outer(Some(whole(*cycle)))),
            ("hwa", Ok([])) => Ok(Self::Hwa(None, None)),
            ("hwa", Ok([cycle])) => Ok(Self::Hwa(Some(whole(*cycle)), None)),
            ("hwa", Ok([cycle, length])) if *length > 0 => {
                Ok(Self::Hwa(Some(whole(*cycle)), Some(whole(*length))))
            }
            ("inner", Ok([cycle, model])) => Ok(Self::Inner(whole(*cycle), whole(*model), None)),
            ("inner", Ok([cycle, model, step])) => {
                Ok(Self::Inner(whole(*cycle), whole(*model), Some(*step)))
            }
            ("best" | "outer" | "hwa" | "inner", _) => Err(format!("expected {EXPECTED}")),
            ("", _) => Err("expected a name".to_owned()),
            _ => Ok(Self::File(PathBuf::from(text))),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => f.write_str("best"),
            Self::Outer(None) => f.write_str("outer"),
            Self::Outer(Some(cycle)) => write!(f, "outer:{cycle}"),
            Self::Hwa(None, _) => f.write_str("hwa"),
            Self::Hwa(Some(cycle), None) => write!(f, "hwa:{cycle}"),
            Self::Hwa(Some(cycle), Some(length)) => write!(f, "hwa:{cycle}:{length}"),
            Self::Inner(cycle, model, None) => write!(f, "inner:{cycle}:{model}"),
            Self::Inner(cycle, model, Some(step)) => write!(f, "inner:{cycle}:{model}:{step}"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Where weights are taken from.
pub(crate) struct Shelf {
    run: Option<PathBuf>,
    spec: ModelSpec,
    task: Task,
}

impl Shelf {
    /// The weights of a run, if there is one, and of files that fit the network.
    pub(crate) fn new(run: Option<PathBuf>, spec: ModelSpec, task: Task) -> Self {
        Self { run, spec, task }
    }

    /// The parameters of that name. Statistics are left out: they are re-estimated.
    pub(crate) fn get(&self, name: &Name) -> Result<Weights, Failure> {
        let weights = match name {
            Name::File(path) => {
                self.ensure_there(path)?;
                self.file(path.clone())?
            }
            Name::Best => self.file(self.run(name)?.join("best.safetensors"))?,
            Name::Outer(cycle) => self.outer(name, *cycle)?,
            Name::Hwa(cycle, length) => self.window(name, *cycle, *length)?,
            Name::Inner(cycle, model, step) => self.inner(name, *cycle, *model, *step)?,
        };
        let weights = weights.only(Role::Parameter);
        match weights.first_non_finite() {
            None => Ok(weights),
            Some(tensor) => {
                let error = StudyError::Diverged { tensor: tensor.to_owned() };
                Err(Failure::Run(anyhow::Error::new(error).context(name.to_string())))
            }
        }
    }

    /// The cycles whose outer weights there are.
    pub(crate) fn outer_cycles(&self) -> Result<Vec<usize>, Failure> {
        match &self.run {
            Some(run) => Ok(CheckpointStore::new(run.join("checkpoints")).outer_cycles()?),
            None => Ok(Vec::new()),
        }
    }

    /// The inner weights there are.
    pub(crate) fn inner_positions(&self) -> Result<Vec<InnerPosition>, Failure> {
        match &self.run {
            Some(run) => Ok(CheckpointStore::new(run.join("checkpoints")).inner_positions()?),
            None => Ok(Vec::new()),
        }
    }

    fn run(&self, name: &Name) -> Result<&PathBuf, Failure> {
        let missing = || Failure::usage(format!("{name}: --run is needed to take it from"));
        self.run.as_ref().ok_or_else(missing)
    }

    /// That there is such a file: else it may be a mistyped name of what a run keeps.
    fn ensure_there(&self, path: &Path) -> Result<(), Failure> {
        if path.exists() {
            return Ok(());
        }
        let there = match &self.run {
            Some(run) => {
                let mut inner: Vec<usize> =
                    self.inner_positions()?.iter().map(|at| at.cycle).collect();
                inner.dedup();
                let (outer, inner) = (kept(&self.outer_cycles()?), kept(&inner));
                format!("; in {}, outer: {outer}, inner: {inner}", run.display())
            }
            None => String::new(),
        };
        let path = path.display();
        Err(Failure::usage(format!(
            "{path} is neither a file nor a name of weights, expected {EXPECTED}{there}"
        )))
    }

    fn store(&self, name: &Name) -> Result<CheckpointStore, Failure> {
        Ok(CheckpointStore::new(self.run(name)?.join("checkpoints")))
    }

    fn file(&self, path: PathBuf) -> Result<Weights, Failure> {
        let read = read_weights(&path, self.spec, self.task, Head::Kept);
        Ok(read.map_err(|unusable| unusable.failure(""))?.weights)
    }

    fn outer(&self, name: &Name, cycle: Option<usize>) -> Result<Weights, Failure> {
        let store = self.store(name)?;
        let cycles = store.outer_cycles()?;
        let cycle = cycle.or_else(|| cycles.last().copied());
        match cycle.filter(|cycle| cycles.contains(cycle)) {
            Some(cycle) => Ok(Weights::clone(&*store.load_outer(cycle)?)),
            None => Err(self.not_there(name, &kept(&cycles))),
        }
    }

    fn window(
        &self,
        name: &Name,
        cycle: Option<usize>,
        length: Option<usize>,
    ) -> Result<Weights, Failure> {
        let store = self.store(name)?;
        let cycles = store.outer_cycles()?;
        let spec = self.window_spec(name, length)?;
        let newest = cycles.last().copied().unwrap_or_default();
        let last = cycle.unwrap_or(newest);
        if last > newest {
            return Err(self.not_there(name, &kept(&cycles)));
        }
        let members = (spec.oldest(last)..=last).filter(|c| c.is_multiple_of(spec.stride.get()));
        let members: Vec<usize> = members.collect();
        if members.is_empty() || !members.iter().all(|member| cycles.contains(member)) {
            return Err(self.not_there(name, &kept(&cycles)));
        }
        let outer: Vec<OuterWeights> =
            members.iter().map(|member| store.load_outer(*member)).collect::<Result<_, _>>()?;
        let outer: Vec<&OuterWeights> = outer.iter().collect();
        let mean = HwaWeights::average(&outer).map_err(|error| Failure::Run(error.into()))?;
        Ok(Weights::clone(&*mean))
    }

    fn window_spec(&self, name: &Name, length: Option<usize>) -> Result<WindowSpec, Failure> {
        if let Some(length) = length.and_then(|length| length.try_into().ok()) {
            return Ok(WindowSpec::sliding(length));
        }
        let run = self.run(name)?;
        let windows = pages::record(run, "")?.started.windows;
        windows.first().copied().ok_or_else(|| {
            Failure::usage(format!("{name}: the run has no window; hwa:CYCLE:LENGTH names one"))
        })
    }

    fn inner(
        &self,
        name: &Name,
        cycle: usize,
        model: usize,
        step: Option<u64>,
    ) -> Result<Weights, Failure> {
        let store = self.store(name)?;
        let positions = store.inner_positions()?;
        let fits = |at: &&InnerPosition| {
            at.cycle == cycle && at.replica == model && step.is_none_or(|step| at.step == step)
        };
        // The last of them is the end of the cycle.
        match positions.iter().rfind(fits) {
            Some(at) => Ok(read_tensors(&store.inner_path(*at))?.0),
            None => match self.last(cycle, model, step)? {
                Some(weights) => Ok(weights),
                None => {
                    let mut cycles: Vec<usize> = positions.iter().map(|at| at.cycle).collect();
                    cycles.dedup();
                    Err(self.not_there(name, &kept(&cycles)))
                }
            },
        }
    }

    /// A model of the last cycle, which a finished run has in its state.
    fn last(
        &self,
        cycle: usize,
        model: usize,
        step: Option<u64>,
    ) -> Result<Option<Weights>, Failure> {
        let Some(run) = &self.run else { return Ok(None) };
        if self.last_cycle()? != Some(cycle) {
            return Ok(None);
        }
        let found = last_models(run)?.into_iter().nth(model);
        let found = found.filter(|(at, _)| step.is_none_or(|step| step == *at));
        Ok(found.map(|(_, weights)| weights))
    }

    /// The last cycle, if the run is finished and has its state still.
    pub(crate) fn last_cycle(&self) -> Result<Option<usize>, Failure> {
        let Some(run) = &self.run else { return Ok(None) };
        let finished = run.join("summary.json").is_file() && has_state(run);
        Ok(self.outer_cycles()?.last().copied().filter(|_| finished))
    }

    fn not_there(&self, name: &Name, kept: &str) -> Failure {
        let run = self.run.as_deref().unwrap_or(Path::new("")).display();
        let key = match name {
            Name::Inner(..) => "checkpoints.inner_cycles chooses what is kept",
            _ => "checkpoints.outer_every chooses what is kept",
        };
        Failure::usage(format!("{run} has no {name}: {kept}; {key}"))
    }
}

/// A number that tells weights of a network apart, by their names and elements.
pub(crate) fn digest(weights: &Weights) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for (name, tensor) in weights.iter() {
        hasher.update(name.as_bytes());
        for value in tensor.values().to_f64() {
            hasher.update(&value.to_le_bytes());
        }
    }
    hasher.finalize()
}

fn kept(cycles: &[usize]) -> String {
    match cycles {
        [] => "it keeps none of that kind".to_owned(),
        [only] => format!("it keeps cycle {only}"),
        [first, .., last] if last - first + 1 == cycles.len() => {
            format!("it keeps cycles {first} to {last}")
        }
        _ => {
            let numbers: Vec<String> = cycles.iter().map(usize::to_string).collect();
            format!("it keeps cycles {}", numbers.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in [
            "best",
            "outer",
            "outer:3",
            "hwa",
            "hwa:60",
            "hwa:60:20",
            "inner:5:1",
            "inner:5:1:99",
            "a/file.pt",
            "model.safetensors",
        ] {
            let name: Name = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
        }
        let number = usize::MAX.to_string();
        assert_eq!(format!("outer:{number}").parse(), Ok(Name::Outer(Some(usize::MAX))));
    }

    #[test]
    fn what_is_no_name_says_what_would_be() {
        for text in
            ["outer:x", "hwa:1:0", "inner", "inner:1", "best:1", "outer:-1", "inner:1:2:3:4"]
        {
            let error = text.parse::<Name>().unwrap_err();
            assert!(error.contains("outer:CYCLE"), "{text}: {error}");
        }
        assert!("".parse::<Name>().is_err());
    }

    #[test]
    fn what_is_kept_is_told_shortly() {
        assert_eq!(kept(&[1, 2, 3]), "it keeps cycles 1 to 3");
        assert_eq!(kept(&[1, 3]), "it keeps cycles 1, 3");
        assert_eq!(kept(&[7]), "it keeps cycle 7");
        assert_eq!(kept(&[]), "it keeps none of that kind");
    }
}
