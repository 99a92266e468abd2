//! Whether two experiments are the same one.

use std::path::Path;

use crate::experiment::{Data, Experiment, LogTable};
use crate::parse::ExperimentError;

impl Experiment {
    /// What must not change when a run is resumed, as TOML: everything but where the data is and
    /// how much of the machine is used.
    ///
    /// ```
    /// use hwa_train::Experiment;
    ///
    /// let with = |set: &str| Experiment::parse("", "mine.toml".as_ref(), &[set.to_owned()]);
    /// assert_eq!(with("threads=2")?.identity()?, Experiment::default().identity()?);
    /// assert_ne!(with("seed=2")?.identity()?, Experiment::default().identity()?);
    /// # Ok::<_, hwa_train::ExperimentError>(())
    /// ```
    pub fn identity(&self) -> Result<String, ExperimentError> {
        let mut same = self.clone();
        same.threads = None;
        let usual = Data::default();
        same.data.dir = None;
        same.log = LogTable::default();
        (same.data.cache_mib, same.data.decoders) = (usual.cache_mib, usual.decoders);
        same.to_toml()
    }

    /// This experiment with what a run in `run` has `stored` about itself; an error, unless it is
    /// the one that the run trains.
    pub fn as_stored(mut self, stored: &Self, run: &Path) -> Result<Self, ExperimentError> {
        if self.data.validation.is_none() {
            self.data.validation = stored.data.validation;
        }
        self.data.digest = stored.data.digest.clone();
        self.model.weights = stored.model.weights.clone();
        self.model.new_head = stored.model.new_head;
        let mut asked = self.resolved().with_unused_of(stored);
        let difference = Self::first_difference(&stored.identity()?, &asked.identity()?);
        if let Some((key, stored, asked)) = difference {
            let run = run.to_owned();
            return Err(ExperimentError::Other { run, key, stored, asked });
        }
        // The data may have moved since.
        asked.data.dir = asked.data.dir.or_else(|| stored.data.dir.clone());
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_is_that_of_a_run_or_says_what_differs() {
        let of = |text: &str| Experiment::parse(text, Path::new("e.toml"), &[]).unwrap();
        let stored =
            of("schedule.epochs = 3\n[data]\ndir = \"there\"\nvalidation = 7\n").resolved();
        let asked = of("threads = 2\nschedule.epochs = 3\nema.decay = 0.5\n");
        let found = asked.clone().as_stored(&stored, Path::new("run")).unwrap();
        let expected = Experiment { threads: asked.threads, ..stored.clone() };
        assert_eq!(found, expected, "what is not used does not count");
        let other = of("schedule.epochs = 4\n").as_stored(&stored, Path::new("run")).unwrap_err();
        let said = "run is another experiment: `schedule.epochs` is 3 there, asked for is 4";
        assert_eq!(other.to_string(), said);
    }
}
