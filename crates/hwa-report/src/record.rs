//! What a run directory tells, ready to be drawn.

use hwa_train::{CycleEnded, Event, Judged, Started, Summary};

use crate::ReportError;

/// What is known of a run, finished or not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    /// What it is called: its folder, as a rule.
    pub name: String,
    /// Where it is, as one would name it to go on with it; may not be known.
    pub folder: String,
    /// The text of its experiment.
    pub experiment: String,
    /// The text of its environment, as JSON.
    pub environment: String,
    /// Its beginning.
    pub started: Started,
    /// Its cycles.
    pub cycles: Vec<CycleEnded>,
    /// What the judge said.
    pub judged: Vec<Judged>,
    /// The cycle after which it stopped early, if it did.
    pub stopped_early: Option<usize>,
    /// Its end.
    pub summary: Option<Summary>,
    /// The models that were left out on the way.
    pub lost: Vec<usize>,
    /// Who trains it.
    pub process: Process,
    /// When it told something last, in seconds since 1970, if that is known.
    pub heard: Option<u64>,
}

/// What is known of the process that trains a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Process {
    /// Nothing.
    #[default]
    Unknown,
    /// It is there.
    There,
    /// It was asked to end, and did.
    Interrupted,
    /// It failed, with the reason.
    Failed(String),
    /// It is not there, whatever became of it.
    Gone,
}

impl Record {
    /// From the text of an `events.jsonl`. A last line that is not complete is passed over: the
    /// run may be writing it.
    pub fn from_events(name: &str, events: &str) -> Result<Self, ReportError> {
        let mut record = Self { name: name.to_owned(), ..Self::default() };
        let complete = events.ends_with('\n');
        let count = events.lines().count();
        for (index, line) in events.lines().enumerate() {
            let event = match serde_json::from_str(line) {
                Err(_) if index + 1 == count && !complete => break,
                event => event.map_err(|source| ReportError::Event { line: index + 1, source })?,
            };
            record.add(event);
        }
        Ok(record)
    }

    fn add(&mut self, event: Event) {
        match event {
            Event::Started(started) => self.started = started,
            Event::CycleEnded(ended) => self.cycles.push(ended),
            Event::Judged(judged) => self.judged.push(*judged),
            Event::StoppedEarly { cycle } => self.stopped_early = Some(cycle),
            Event::Finished(summary) => self.summary = Some(*summary),
            Event::ReplicaLost { replica, .. } => self.lost.push(replica),
            // How it ended is told by its process.
            Event::Diverged { .. }
            | Event::Resumed { .. }
            | Event::Stepped(_)
            | Event::Measured { .. }
            | Event::Interrupted { .. }
            | Event::Unknown => {}
        }
    }

    /// A value of the experiment, by the path of its key.
    pub fn key(&self, path: &str) -> Option<String> {
        let table: toml::Table = self.experiment.parse().ok()?;
        let mut value = toml::Value::Table(table);
        for part in path.split('.') {
            value = value.get(part)?.clone();
        }
        Some(match value {
            toml::Value::String(text) => text,
            other => other.to_string(),
        })
    }

    /// Whether one model is trained, whose levels have other names.
    pub fn is_single(&self) -> bool {
        self.started.num_models == 1
    }

    /// Method and seed, as far as they are known: what tells runs apart.
    pub fn label(&self) -> String {
        match (self.key("method"), self.key("seed")) {
            (Some(method), Some(seed)) => format!("{method}, seed {seed}"),
            _ => self.name.clone(),
        }
    }

    /// Epochs at the end of a step.
    pub fn epoch(&self, step: u64) -> f64 {
        step as f64 / self.started.steps_per_epoch.max(1) as f64
    }

    /// Epochs at the end of a cycle, by which runs with cycles of different length are compared; of one
    /// that is not in the log, its number.
    pub fn epoch_of(&self, cycle: f64) -> f64 {
        // They are in order.
        let found = self.cycles.binary_search_by(|ended| (ended.cycle as f64).total_cmp(&cycle));
        found.map_or(cycle, |index| self.epoch(self.cycles[index].step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: &str = concat!(
        r#"{"event":"started","num_models":2,"steps_per_epoch":5,"num_cycles":3}"#,
        "\n",
        r#"{"event":"cycle_ended","cycle":1,"step":5,"rate":0.1,"models":[]}"#,
        "\n",
        r#"{"event":"weather"}"#,
        "\n",
    );

    #[test]
    fn a_line_that_is_being_written_is_passed_over_and_no_other() {
        let half = format!("{EVENTS}{{\"event\":\"cyc");
        let record = Record::from_events("run", &half).unwrap();
        assert_eq!((record.started.num_models, record.cycles.len()), (2, 1));
        let error = Record::from_events("run", &format!("{half}\n{EVENTS}")).unwrap_err();
        assert!(error.to_string().starts_with("line 4 of the events: "), "{error}");
    }

    #[test]
    fn keys_are_found() {
        let experiment = "name = \"a\"\nseed = 3\nmethod = \"hwa\"\n[hwa]\nnum_models = 2\n";
        let record = Record { experiment: experiment.to_owned(), ..Record::default() };
        assert_eq!(record.key("hwa.num_models").as_deref(), Some("2"));
        assert_eq!(record.key("hwa.nothing"), None);
        assert_eq!(record.label(), "hwa, seed 3");
    }
}
