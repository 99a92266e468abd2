//! Methods beside each other: figures of several runs.

mod tables;

use serde::{Deserialize, Serialize};

pub use tables::Table;

/// What was compared, with the figures of every run that is finished.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Comparison {
    /// What it is about.
    pub title: String,
    /// What a reader has to know: scaled budgets, runs that are missing, and the like.
    pub notes: Vec<String>,
    /// The method that the others are compared with, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// A row for each method, by data set and network.
    pub rows: Vec<Row>,
}

/// A method on a data set with a network.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// The data set.
    pub dataset: String,
    /// The network.
    pub network: String,
    /// The method.
    pub method: String,
    /// Gradients that are computed while each model does a step.
    pub gradients_per_step: u64,
    /// With the budget for each model, if that was asked for.
    pub per_model: Option<Group>,
    /// With the budget for the gradients of all models together, if that was asked for. Where a
    /// step takes one gradient, it is the same.
    pub total: Option<Group>,
    /// What the paper has.
    pub paper: Published,
}

/// A published result, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Published {
    /// Top-1 accuracy.
    pub top1: Option<f64>,
    /// Top-5 accuracy.
    pub top5: Option<f64>,
}

/// Runs that differ by their seed alone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// How many there are to be.
    pub planned: usize,
    /// Top-1 accuracy on test, in percent.
    pub top1: Option<Spread>,
    /// Top-5 accuracy on test, in percent.
    pub top5: Option<Spread>,
    /// Steps of each model.
    pub steps: Option<Spread>,
    /// Seconds of all cores together.
    pub cpu: Option<Spread>,
    /// Seconds by the clock.
    pub seconds: Option<Spread>,
    /// The most memory that a run held, in MB.
    pub peak_memory_mb: Option<f64>,
    /// Those that are finished.
    pub runs: Vec<RunFigures>,
    /// Those that ended because something was not finite.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diverged: Vec<DivergedRun>,
}

/// A run that ended because a loss or weights were not finite: it has no figures, and would end so again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DivergedRun {
    /// Its seed.
    pub seed: u64,
    /// The steps of the model that diverged.
    pub step: u64,
    /// What it told.
    pub reason: String,
}

/// A mean, and how far from it single values are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation (of a sample: divided by n - 1), with two values and more.
    pub std: Option<f64>,
    /// How many values there are.
    pub n: usize,
}

/// A run that is finished.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFigures {
    /// Its seed.
    pub seed: u64,
    /// Top-1 accuracy of the chosen weights on test, in percent.
    pub top1: f64,
    /// Top-5 accuracy of the chosen weights on test, in percent.
    pub top5: f64,
    /// Top-1 accuracy of the chosen weights on validation, in percent.
    pub validation_top1: f64,
    /// Mean top-1 accuracy of the models' last weights on test, with their running statistics.
    pub inner_top1: Option<f64>,
    /// The chosen cycle.
    pub chosen_cycle: usize,
    /// The last cycle.
    pub last_cycle: usize,
    /// How many weights validation chose from: each average and each model that was looked at.
    /// Windows with the same members are one. Tables of earlier versions do not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<usize>,
    /// Models.
    pub models: usize,
    /// How many of them were lost on the way.
    #[serde(skip_serializing_if = "is_none_lost")]
    pub lost: usize,
    /// Steps of each model.
    pub steps: u64,
    /// Seconds by the clock.
    pub seconds: f64,
    /// Seconds of all cores together, where the system tells.
    pub cpu: Option<f64>,
    /// The most memory that it held, in MB, where the system tells.
    pub peak_memory_mb: Option<f64>,
    /// What it ran on, session by session.
    pub machines: Vec<String>,
    /// The commits of the programs that trained it.
    pub commits: Vec<String>,
    /// Where several windows were tried in it, what each is worth.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowFigures>,
    /// Where windows are over averages of several models, what the averages alone are worth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub online: Option<WindowFigures>,
    /// Its experiment, without what may differ between machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
}

fn is_none_lost(lost: &usize) -> bool {
    *lost == 0
}

/// One of several windows that a run has tried.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowFigures {
    /// Its length in cycles, if it has one.
    pub length: Option<usize>,
    /// The cycle that validation chooses for it.
    pub chosen_cycle: usize,
    /// In how many cycles it was looked at. Tables of earlier versions do not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<usize>,
    /// Top-1 accuracy on test there, in percent.
    pub top1: f64,
    /// Top-5 accuracy on test there, in percent.
    pub top5: f64,
    /// Top-1 accuracy on validation there, in percent.
    pub validation_top1: f64,
}

impl RunFigures {
    /// The run as if it had tried the window of this length alone.
    fn with_window(&self, length: Option<usize>) -> Option<Self> {
        let window = self.windows.iter().find(|window| window.length == length)?;
        Some(self.with(window))
    }

    /// The run as if it had tried no window: its outer weights alone, if they were measured.
    pub fn without_windows(&self) -> Option<Self> {
        self.online.as_ref().map(|online| self.with(online))
    }

    fn with(&self, chosen: &WindowFigures) -> Self {
        Self {
            top1: chosen.top1,
            top5: chosen.top5,
            validation_top1: chosen.validation_top1,
            chosen_cycle: chosen.chosen_cycle,
            candidates: chosen.candidates,
            windows: Vec::new(),
            online: None,
            ..self.clone()
        }
    }
}

impl Row {
    /// A row for each of several windows that were tried in the same runs.
    fn by_window(&self) -> Vec<Self> {
        let groups = || [&self.per_model, &self.total].into_iter().flatten();
        let windows = groups().flat_map(|group| &group.runs).flat_map(|run| &run.windows);
        let mut lengths: Vec<Option<usize>> = Vec::new();
        for window in windows {
            if !lengths.contains(&window.length) {
                lengths.push(window.length);
            }
        }
        let of_length = |length: Option<usize>| {
            let group = |group: &Option<Group>| {
                let group = group.as_ref()?;
                let runs = group.runs.iter().filter_map(|run| run.with_window(length));
                let runs: Vec<RunFigures> = runs.collect();
                // A share of the cycles is another length under another budget.
                let is_tried = !runs.is_empty();
                let windows = Group::new(group.planned, runs);
                is_tried.then(|| windows.with_diverged(group.diverged.clone()))
            };
            let name = length.map_or("all".to_owned(), |length| length.to_string());
            Self {
                method: format!("{}, I = {name}", self.method),
                per_model: group(&self.per_model),
                total: group(&self.total),
                paper: Published::default(),
                ..self.clone()
            }
        };
        lengths.into_iter().map(of_length).collect()
    }
}

impl Spread {
    /// The standard error of the mean.
    pub fn error(&self) -> Option<f64> {
        self.std.map(|std| std / (self.n as f64).sqrt())
    }

    /// Of some values; nothing of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let std = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
        Some(Self { mean, std, n })
    }
}

impl Group {
    /// Of the runs that are finished, out of so many.
    pub fn new(planned: usize, runs: Vec<RunFigures>) -> Self {
        let spread = |value: fn(&RunFigures) -> Option<f64>| {
            Spread::of(&runs.iter().filter_map(value).collect::<Vec<_>>())
        };
        let peaks = runs.iter().filter_map(|run| run.peak_memory_mb);
        Self {
            planned,
            top1: spread(|run| Some(run.top1)),
            top5: spread(|run| Some(run.top5)),
            steps: spread(|run| Some(run.steps as f64)),
            cpu: spread(|run| run.cpu),
            seconds: spread(|run| Some(run.seconds)),
            peak_memory_mb: peaks.reduce(f64::max),
            runs,
            diverged: Vec::new(),
        }
    }

    /// With runs that diverged.
    pub fn with_diverged(self, diverged: Vec<DivergedRun>) -> Self {
        Self { diverged, ..self }
    }

    /// How much better its runs are on test than those of another with the same seeds, which began
    /// with the same weights and saw the same images.
    pub fn over(&self, other: &Self) -> Option<Spread> {
        let difference = |run: &RunFigures| {
            let other = other.runs.iter().find(|other| other.seed == run.seed)?;
            Some(run.top1 - other.top1)
        };
        Spread::of(&self.runs.iter().filter_map(difference).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, top1: f64) -> RunFigures {
        RunFigures {
            seed,
            top1,
            top5: top1 + 10.0,
            models: 2,
            steps: 1000,
            seconds: 100.0,
            cpu: Some(150.0),
            peak_memory_mb: Some(300.0 + seed as f64),
            commits: vec!["abc".to_owned()],
            ..RunFigures::default()
        }
    }

    fn row(network: &str, method: &str, top1: &[f64]) -> Row {
        let runs = top1.iter().enumerate().map(|(i, t)| run(i as u64, *t)).collect();
        Row {
            dataset: "CIFAR-100".to_owned(),
            network: network.to_owned(),
            method: method.to_owned(),
            gradients_per_step: 2,
            per_model: Some(Group::new(3, runs)),
            total: None,
            paper: Published { top1: Some(70.79), top5: None },
        }
    }

    fn comparison(rows: Vec<Row>) -> Comparison {
        Comparison { title: "Methods".to_owned(), rows, ..Comparison::default() }
    }

    #[test]
    fn a_spread_is_that_of_a_sample() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[3.0]), Some(Spread { mean: 3.0, std: None, n: 1 }));
        // By hand: deviations -1, 0, 1; squares sum to 2; divided by 2.
        let three = Spread::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(three, Spread { mean: 2.0, std: Some(1.0), n: 3 });
    }

    #[test]
    fn a_table_has_what_is_done_and_says_what_is_not() {
        let done = row("resnet20", "HWA", &[70.0, 71.0, 72.0]);
        let begun = row("resnet20", "a|b", &[60.0]);
        let none = row("resnet20", "SAM", &[]);
        let text = comparison(vec![done, begun, none]).to_markdown();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(
            lines,
            [
                "| method | top-1 | top-5 | n | paper | gradients | core time | memory |",
                "|---|--:|--:|--:|--:|--:|--:|--:|",
                "| HWA | 71.00 ± 1.00 | 81.00 ± 1.00 | 3 | 70.79 | 2,000 | 2.5 min | 302 MB |",
                "| a\\|b | 60.00 | 70.00 | 1 of 3 | 70.79 | 2,000 | 2.5 min | 300 MB |",
                "| SAM | – | – | 0 of 3 | 70.79 | – | – | – |",
            ]
        );
    }

    #[test]
    fn several_networks_have_a_table_of_their_own_and_one_together() {
        let mut other = row("vgg16", "HWA", &[77.0]);
        other.paper = Published::default();
        let tables = comparison(vec![row("resnet20", "HWA", &[70.0]), other]).tables();
        let headings: Vec<&str> = tables.iter().map(|table| table.heading.as_str()).collect();
        assert_eq!(
            headings,
            [
                "CIFAR-100: top-1 accuracy, equal epochs of each model",
                "CIFAR-100, resnet20: equal epochs of each model",
                "CIFAR-100, vgg16: equal epochs of each model"
            ]
        );
        assert_eq!(tables[0].rows[1], ["HWA", "70.00, 1 of 3 (paper 70.79)", "77.00, 1 of 3"]);
        // No column for what nobody has published.
        assert!(!tables[2].rows[0].contains(&"paper".to_owned()));
    }

    #[test]
    fn windows_of_one_run_are_rows_of_their_own() {
        let window =
            |length, top1| WindowFigures { length: Some(length), top1, ..Default::default() };
        let tried = |seed, [a, b]: [f64; 2]| RunFigures {
            windows: vec![window(5, a), window(20, b)],
            ..run(seed, a.max(b))
        };
        let mut both = row("resnet20", "HWA", &[]);
        both.per_model = Some(Group::new(2, vec![tried(1, [70.0, 71.0]), tried(2, [72.0, 69.0])]));
        // A share of the cycles is half as long in half of them.
        let half = RunFigures { windows: vec![window(2, 60.0), window(10, 61.0)], ..run(1, 61.0) };
        both.total = Some(Group::new(2, vec![half]));
        let tables = comparison(vec![both]).tables();
        let names: Vec<&str> = tables[1].rows[1..].iter().map(|row| &*row[0]).collect();
        assert_eq!(names, ["HWA", "HWA, I = 2", "HWA, I = 10"]);
        let cells: Vec<[&str; 3]> =
            tables[0].rows[1..].iter().map(|row| [&*row[0], &*row[1], &*row[4]]).collect();
        let expected = [
            // Whichever validation chose; only it is what the paper has a figure of.
            ["HWA", "71.50 ± 0.71", "70.79"],
            ["HWA, I = 5", "71.00 ± 1.41", "–"],
            ["HWA, I = 20", "70.00 ± 1.41", "–"],
        ];
        assert_eq!(cells, expected);
    }

    #[test]
    fn differences_are_between_runs_of_one_seed() {
        let table = |reference: Option<&str>| {
            let mut three = row("resnet20", "HWA", &[70.0, 73.0, 71.5]);
            // By hand: over seeds 0 and 1, of which both have runs, 1 and 3.
            let two = row("resnet20", "CA", &[69.0, 70.0]);
            let none = row("resnet20", "SAM", &[]);
            let reason = "the loss of step 7 is NaN".to_owned();
            let diverged = vec![DivergedRun { seed: 2, step: 7, reason }];
            three.total = three.per_model.clone().map(|group| group.with_diverged(diverged));
            let rows = vec![two, three, none];
            Comparison { reference: reference.map(str::to_owned), ..comparison(rows) }
        };
        let with = table(Some("CA"));
        let tables = with.tables();
        let cells: Vec<[&str; 2]> = tables[0].rows.iter().map(|row| [&*row[0], &*row[2]]).collect();
        let expected =
            [["method", "over CA"], ["CA", "–"], ["HWA", "+2.00 ± 1.00 (n = 2)"], ["SAM", "–"]];
        assert_eq!(cells, expected);
        assert!(with.to_csv().contains(",per-model,3,3,71.5,1.5,81.5,1.5,2,1,2,0,70.79,"));
        assert!(with.legend().iter().any(|line| line.starts_with("Over CA: ")));
        // There is nothing of CA under this budget.
        assert_eq!(tables[1].rows[0][..4], ["method", "top-1", "top-5", "n"]);
        assert_eq!(tables[1].rows[1][3], "3, 1 diverged");
        assert!(with.legend().iter().any(|line| line.starts_with("Diverged: ")));
        assert_eq!(table(None).tables()[0].rows[0][2], "top-5");
        let (one, other) = (row("resnet20", "CA", &[70.0]), row("resnet20", "HWA", &[69.999]));
        let near = Comparison { reference: Some("CA".to_owned()), ..comparison(vec![one, other]) };
        assert_eq!(near.tables()[0].rows[2][2], "+0.00");
    }

    #[test]
    fn what_a_system_did_not_tell_is_left_out_of_means() {
        let unknown = RunFigures { cpu: None, peak_memory_mb: None, ..run(2, 70.0) };
        let group = Group::new(2, vec![run(1, 70.0), unknown.clone()]);
        assert_eq!(group.cpu, Some(Spread { mean: 150.0, std: None, n: 1 }));
        assert_eq!(group.peak_memory_mb, Some(301.0));
        assert_eq!(Group::new(1, vec![unknown]).cpu, None);
    }

    #[test]
    fn both_budgets_stand_beside_each_other() {
        let mut both = row("resnet20", "HWA, long", &[70.0, 72.0]);
        both.total = Some(Group::new(2, vec![run(1, 68.0), run(2, 69.0)]));
        let comparison = comparison(vec![both]);
        let tables = comparison.tables();
        assert_eq!(tables[1].heading, "CIFAR-100, resnet20: equal gradients of all models");
        // The paper's figure is not at equal gradients.
        let head = ["method", "top-1", "top-5", "n", "gradients", "core time", "memory"];
        assert_eq!(tables[1].rows[0], head);
        assert_eq!(tables[1].rows[1][1..4], ["68.50 ± 0.71", "78.50 ± 0.71", "2"]);
        assert!(comparison.legend().contains(&"Commit: abc.".to_owned()));
        assert!(comparison.legend().iter().any(|line| line.starts_with("Equal gradients")));
        let csv = comparison.to_csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].starts_with("CIFAR-100,resnet20,\"HWA, long\",per-model,3,2,71,1.41"));
        assert!(lines[2].contains(",total,2,2,68.5,"));
        let width = |line: &str| line.replace("\"HWA, long\"", "HWA").split(',').count();
        assert!(lines.iter().all(|line| width(line) == 22), "{csv}");
    }
}
