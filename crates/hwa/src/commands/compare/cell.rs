//! What a comparison trains: every combination of its entries.

use std::path::{Path, PathBuf};

use hwa_train::{Budget, Experiment, ExperimentError, Method};

use super::entry::{Compared, Labelled, compared, labelled, labels, slug};
use super::keys::merge;
use super::spec::{Spec, repeated};
use crate::commands::train::as_stored;
use crate::failure::Failure;

/// A method on a data set with a network under a budget: runs that differ by their seed alone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    /// The data set's label.
    pub(super) dataset: String,
    /// The network's label.
    pub(super) network: String,
    /// The method's label.
    pub(super) method: String,
    /// Where its runs are, below the comparison's folder.
    pub(super) folder: String,
    /// What they train, but for the seed.
    pub(super) experiment: Experiment,
    /// The method that trains them, if this is of their outer weights alone.
    pub(super) outer_of: Option<String>,
}

impl Cell {
    /// The method, and the budget if it is not the usual one.
    pub(super) fn label(&self) -> String {
        match self.experiment.budget {
            Budget::PerModel => self.method.clone(),
            Budget::Total => format!("{}, equal gradients", self.method),
        }
    }

    /// An error, unless a run in `place` that has `stored` this experiment is one of this cell.
    pub(super) fn ensure_trained_by(
        &self,
        stored: &Experiment,
        place: &Path,
        seed: u64,
    ) -> Result<(), Failure> {
        let asked = Experiment { seed, ..self.experiment.clone() };
        let model = asked.model.clone();
        let stored = as_stored(stored, place, asked)?;
        // A resumed run takes these from itself.
        let same = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()))
        };
        let equal = same(&stored.model.weights) == same(&model.weights);
        match equal && stored.model.new_head == model.new_head {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "{} is another experiment: it begins with other weights",
                place.display()
            ))),
        }
    }
}

impl Spec {
    /// Every experiment, by data set, network, method and budget. `path` is for messages.
    pub(super) fn cells(&self, path: &Path, sets: &[String]) -> Result<Vec<Cell>, Failure> {
        let datasets = labelled(&self.datasets, &["data", "dataset"], path)?;
        let networks = labelled(&self.networks, &["model", "name"], path)?;
        let compared = compared(&self.methods, path)?;
        let mut cells: Vec<Cell> = Vec::new();
        for dataset in &datasets {
            for network in &networks {
                for method in &compared {
                    for budget in &self.budgets {
                        let parts = Parts { dataset, network, method, budget: *budget };
                        cells.extend(self.cell(&parts, path, sets)?);
                    }
                }
            }
        }
        ensure_apart(&cells, path)?;
        let methods: Vec<Labelled> = compared.into_iter().map(|method| method.entry).collect();
        if let Some(found) = &self.reference {
            ensure_known("reference", found, &methods, path)?;
        }
        self.check_paper([&datasets, &networks, &methods], path)?;
        Ok(cells)
    }

    /// One experiment; nothing, if another budget has the same.
    fn cell(
        &self,
        parts: &Parts<'_>,
        path: &Path,
        sets: &[String],
    ) -> Result<Option<Cell>, Failure> {
        let mut experiment = self.combined(parts, path, sets)?;
        let single = experiment.gradients_per_step() == 1;
        if single && self.budgets.first() != Some(&parts.budget) {
            return Ok(None);
        }
        // With one gradient in a step both budgets are the same.
        experiment.budget = if single { Budget::PerModel } else { parts.budget };
        let suffix = if experiment.budget == Budget::Total { "-total" } else { "" };
        let [dataset, network, trained] = parts.trained();
        let [d, n, m] = [dataset, network, trained].map(slug);
        experiment.name = format!("{d}-{n}-{m}{suffix}");
        let Compared { entry, outer_of } = parts.method;
        if outer_of.is_some() {
            ensure_averaged(&experiment, trained, path)?;
        }
        Ok(Some(Cell {
            dataset: dataset.to_owned(),
            network: network.to_owned(),
            method: entry.label.clone(),
            folder: format!("{d}/{n}/{m}{suffix}"),
            experiment,
            outer_of: outer_of.clone(),
        }))
    }

    /// What the keys of all parts make together.
    fn combined(
        &self,
        parts: &Parts<'_>,
        path: &Path,
        sets: &[String],
    ) -> Result<Experiment, Failure> {
        let mut keys = self.experiment.clone();
        for part in [parts.dataset, parts.network, &parts.method.entry] {
            merge(&mut keys, &part.keys);
        }
        for key in ["name", "seed", "budget"] {
            if keys.contains_key(key) {
                let path = path.display();
                return Err(Failure::usage(format!(
                    "{path}: `{key}` is no key of an experiment here: the file itself has \
                     `name`, `seeds` and `budgets`"
                )));
            }
        }
        let text = toml::to_string(&keys).map_err(|e| Failure::usage(e.to_string()))?;
        Experiment::parse(&text, path, sets).map_err(|error| match error {
            // Its lines are those of a text that nobody has written.
            ExperimentError::File { message, .. } => {
                let reason = message.split_once(": ").map_or(message.as_str(), |(_, rest)| rest);
                let [dataset, network, method] = parts.trained();
                let path = path.display();
                let more = match reason.starts_with("there is no key") {
                    true => " (an entry has also `label` and `outer_of`)",
                    false => "",
                };
                Failure::usage(format!(
                    "{path}: {method} on {dataset} with {network}: {reason}{more}"
                ))
            }
            other => other.into(),
        })
    }

    /// A figure under a label that nothing has would be missed by nobody.
    fn check_paper(&self, labels: [&[Labelled]; 3], path: &Path) -> Result<(), Failure> {
        let [datasets, networks, methods] = labels;
        for (dataset, by_network) in &self.paper {
            ensure_known("paper", dataset, datasets, path)?;
            for (network, by_method) in by_network {
                ensure_known(&format!("paper.{dataset}"), network, networks, path)?;
                for method in by_method.keys() {
                    ensure_known(&format!("paper.{dataset}.{network}"), method, methods, path)?;
                }
            }
        }
        Ok(())
    }
}

/// What a cell is made of.
struct Parts<'a> {
    dataset: &'a Labelled,
    network: &'a Labelled,
    method: &'a Compared,
    budget: Budget,
}

impl<'a> Parts<'a> {
    /// The labels of data set, network, and the method that is trained.
    fn trained(&self) -> [&'a str; 3] {
        let Compared { entry, outer_of } = self.method;
        [&self.dataset.label, &self.network.label, outer_of.as_ref().unwrap_or(&entry.label)]
            .map(String::as_str)
    }
}

/// An error, unless a label is one of these.
fn ensure_known(key: &str, label: &str, known: &[Labelled], path: &Path) -> Result<(), Failure> {
    if known.iter().any(|entry| entry.label == label) {
        return Ok(());
    }
    let (path, known) = (path.display(), labels(known));
    Err(Failure::usage(format!("{path}: `{key}` must be one of {known}, found {label:?}")))
}

/// Runs of two entries would be each other's.
fn ensure_apart(cells: &[Cell], path: &Path) -> Result<(), Failure> {
    let place = |cell: &Cell| (cell.folder.clone(), cell.outer_of.clone());
    let places: Vec<(String, Option<String>)> = cells.iter().map(place).collect();
    match repeated(&places) {
        None => Ok(()),
        Some((folder, _)) => Err(Failure::usage(format!(
            "{}: two entries have the same folder, {folder}; give them other labels",
            path.display()
        ))),
    }
}

/// Outer weights are told apart from the result where several models have windows.
fn ensure_averaged(experiment: &Experiment, label: &str, path: &Path) -> Result<(), Failure> {
    let kept = experiment.checkpoints.outer_every.get() == 1;
    match experiment.method == Method::Hwa && experiment.num_models().get() > 1 && kept {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{}: `outer_of` must name a method `hwa` with several models, all of whose outer \
             weights are kept, found {label:?}",
            path.display(),
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::example::TEXT;
    use super::*;

    fn cells(text: &str) -> Result<Vec<Cell>, Failure> {
        let path = Path::new("c.toml");
        Spec::parse(text, path)?.cells(path, &[])
    }

    fn error(text: &str) -> String {
        cells(text).unwrap_err().to_string()
    }

    #[test]
    fn cells_are_all_combinations_and_one_gradient_has_one_budget() {
        let cells = cells(TEXT).unwrap();
        let folders: Vec<&str> = cells.iter().map(|cell| cell.folder.as_str()).collect();
        let expected = [
            "digits/resnet8/sgd",
            "digits/resnet8/hwa",
            "digits/resnet8/hwa-total",
            "digits/resnet20/sgd",
            "digits/resnet20/hwa",
            "digits/resnet20/hwa-total",
        ];
        assert_eq!(folders, expected);
        let last = &cells[5].experiment;
        assert_eq!((last.hwa.num_models.get(), last.optimizer.rate), (3, 0.05));
        assert_eq!(last.hwa.window_length.as_slice().len(), 1, "tables are merged");
        assert_eq!((last.budget, last.name.as_str()), (Budget::Total, "digits-resnet20-hwa-total"));
        let spec = Spec::parse(TEXT, Path::new("c.toml")).unwrap();
        assert_eq!(spec.published(&cells[4]).top1, Some(70.79));
        assert_eq!(spec.published(&cells[1]).top1, None);
    }

    #[test]
    fn outer_weights_of_a_method_are_a_row_and_no_training_of_their_own() {
        let with = |entry: &str| TEXT.replace("[\"sgd\",", &format!("[\"sgd\", {entry},"));
        let cells = cells(&with("{ label = \"Online\", outer_of = \"HWA\" }")).unwrap();
        let of = |method: &str| -> Vec<&Cell> {
            cells.iter().filter(|cell| cell.method == method).collect()
        };
        let (online, hwa) = (of("Online"), of("HWA"));
        assert_eq!((online.len(), hwa.len()), (4, 4));
        for (online, hwa) in online.iter().zip(hwa) {
            assert_eq!((&online.folder, &online.experiment), (&hwa.folder, &hwa.experiment));
            assert_eq!((online.outer_of.as_deref(), &hwa.outer_of), (Some("HWA"), &None));
        }
        for (entry, expected) in [
            (
                "{ label = \"a\", outer_of = \"b\" }",
                "`outer_of` must be one of sgd, HWA, found \"b\"",
            ),
            ("{ label = \"a\", outer_of = 3 }", "`outer_of` must be one of sgd, HWA, found \"\""),
            ("{ outer_of = \"HWA\" }", "the entry `outer_of = \"HWA\"` needs a `label`"),
            (
                "{ label = \"a\", outer_of = \"sgd\" }",
                "must name a method `hwa` with several models",
            ),
            (
                "{ label = \"a\", outer_of = \"HWA\", seed = 3 }",
                "has a `label` and nothing else, found `seed`",
            ),
        ] {
            assert!(error(&with(entry)).contains(expected), "{}", error(&with(entry)));
        }
    }

    #[test]
    fn mistakes_name_what_they_are_in() {
        let twice = TEXT.replace("[\"sgd\",", "[\"sgd\", \"SGD\",");
        assert!(
            error(&twice).starts_with("c.toml: SGD on digits with resnet8: "),
            "{}",
            error(&twice)
        );
        let unknown = TEXT.replace("num_models = 3", "num_modls = 3");
        assert!(error(&unknown).contains("HWA on digits with resnet8: "), "{}", error(&unknown));
        assert!(error(&unknown).contains("num_modls"), "{}", error(&unknown));
        let same = TEXT.replace("\"sgd\",", "\"sgd\", \"sgd\",");
        assert!(error(&same).contains("two entries have the same folder, digits/resnet8/sgd"));
        let none = TEXT.replace("seeds = [1, 2]", "seeds = []");
        assert!(error(&none).contains("`seeds` must name at least one"), "{}", error(&none));
        let seed = TEXT.replace("method = \"hwa\"", "method = \"hwa\", seed = 3");
        assert!(error(&seed).contains("`seed` is no key"), "{}", error(&seed));
        let label = TEXT.replace("label = \"HWA\", method = \"hwa\",", "");
        assert!(error(&label).contains("without `method` needs a `label`"), "{}", error(&label));
        let method = TEXT.replace("method = \"hwa\", ", "");
        assert!(error(&method).contains("the entry \"HWA\" needs `method`"), "{}", error(&method));
        let seed = TEXT.replace("seeds = [1, 2]", "seeds = [18446744073709551615]");
        assert!(error(&seed).contains("seeds"), "{}", error(&seed));
        let outside = TEXT.replace("\"mine\"", "\"../mine\"");
        assert!(error(&outside).contains("`name` must be the name of a folder"));
        let typo = TEXT.replace("[\"sgd\",", "[\"sgdd\",");
        assert!(
            error(&typo).starts_with("c.toml: sgdd on digits with resnet8: "),
            "{}",
            error(&typo)
        );
        let twice = TEXT.replace("seeds = [1, 2]", "seeds = [1, 2, 1]");
        assert!(error(&twice).contains("`seeds` must name each once, found 1 again"));
        let empty =
            TEXT.replace("[\"digits\"]", "[\"\"]").replace("[paper.digits.", "[paper.\"\".");
        assert!(error(&empty).contains("`label` must be a line"), "{}", error(&empty));
        let control = TEXT.replace("label = \"HWA\"", "label = \"H\\nWA\"");
        assert!(error(&control).contains("`label` must be a line"), "{}", error(&control));
        let paper = TEXT.replace("HWA = 70.79", "HAW = 70.79");
        let expected = "`paper.digits.resnet20` must be one of sgd, HWA, found \"HAW\"";
        assert!(error(&paper).contains(expected), "{}", error(&paper));
        assert!(error("name = 3").starts_with("c.toml: "), "{}", error("name = 3"));
        let without = TEXT.replace("datasets = [\"digits\"]", "");
        assert!(error(&without).contains("line 1: `datasets` is missing"), "{}", error(&without));
        let near = TEXT.replace("datasets", "dataset");
        let expected = "there is no key `dataset`; did you mean `datasets`?";
        assert!(error(&near).contains(expected), "{}", error(&near));
        let far = format!("optimizer.rate = 1\n{TEXT}");
        let expected = "there is no key `optimizer`; there are name, title,";
        assert!(error(&far).contains(expected), "{}", error(&far));
        let lable = TEXT.replace("label =", "lable =");
        assert!(error(&lable).contains("an entry has also `label`"), "{}", error(&lable));
        let other =
            TEXT.replace("method = \"hwa\",", "method = \"hwa\", model.name = \"resnet20\",");
        let expected = "`model.name` stands in `networks`, found in the entry \"HWA\"";
        assert!(error(&other).contains(expected), "{}", error(&other));
        let common = TEXT.replace("[experiment]", "[experiment]\nmethod = \"sgd\"");
        let expected = "`method` stands in `methods`, found in `experiment`";
        assert!(error(&common).contains(expected), "{}", error(&common));
        let paper = TEXT.replace("70.79", "nan");
        assert!(error(&paper).contains("from 0 to 100, found NaN"), "{}", error(&paper));
    }
}
