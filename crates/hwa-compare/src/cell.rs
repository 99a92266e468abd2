//! What a comparison trains: every combination of its entries.

use std::path::{Path, PathBuf};

use hwa_train::{Budget, Experiment, ExperimentError, Method};

use crate::entry::{Compared, DATASETS, Labelled, NETWORKS, compared, labelled, labels, slug};
use crate::error::CompareError;
use crate::keys::merge;
use crate::spec::{Spec, repeated};

/// A method on a data set with a network under a budget: runs that differ by their seed alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The data set's label.
    pub dataset: String,
    /// The network's label.
    pub network: String,
    /// The method's label.
    pub method: String,
    /// Where its runs are, below the comparison's folder.
    pub folder: String,
    /// What they train, but for the seed.
    pub experiment: Experiment,
    /// The method that trains them, if this is of their outer weights alone.
    pub outer_of: Option<String>,
    /// Where its parts stand in the comparison, the one first whose keys count.
    pub(crate) places: Vec<String>,
}

impl Cell {
    /// The method, and the budget if it is not the usual one.
    pub fn label(&self) -> String {
        match self.experiment.budget {
            Budget::PerModel => self.method.clone(),
            Budget::Total => format!("{}, equal gradients", self.method),
        }
    }

    /// The same, with its network and its data set.
    pub fn title(&self) -> String {
        let Self { dataset, network, .. } = self;
        format!("{} on {dataset} with {network}", self.label())
    }

    /// An error, unless a run in `place` that has `stored` this experiment is one of this cell.
    pub fn ensure_trained_by(
        &self,
        stored: &Experiment,
        place: &Path,
        seed: u64,
    ) -> Result<(), CompareError> {
        let asked = Experiment { seed, ..self.experiment.clone() };
        let model = asked.model.clone();
        let stored = asked.as_stored(stored, place)?;
        // A resumed run takes these from itself.
        let same = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()))
        };
        let equal = same(&stored.model.weights) == same(&model.weights);
        match equal && stored.model.new_head == model.new_head {
            true => Ok(()),
            false => Err(CompareError::Mistake(format!(
                "{} is another experiment: it begins with other weights",
                place.display()
            ))),
        }
    }
}

impl Spec {
    /// What to say before an `error` of a cell's experiment (of something else, if there is none):
    /// what it is and where that stands; nothing, where the error tells it.
    pub fn context(
        &self,
        cell: &Cell,
        error: Option<&ExperimentError>,
        sets: &[String],
    ) -> Option<String> {
        self.source.context(error, &cell.title(), &cell.places, sets)
    }

    /// Every experiment, by data set, network, method and budget.
    pub fn cells(&self, sets: &[String]) -> Result<Vec<Cell>, CompareError> {
        let datasets = labelled(&self.datasets, DATASETS, &self.source)?;
        let networks = labelled(&self.networks, NETWORKS, &self.source)?;
        let compared = compared(&self.methods, &self.source)?;
        let mut cells: Vec<Cell> = Vec::new();
        for dataset in &datasets {
            for network in &networks {
                for method in &compared {
                    for budget in &self.budgets {
                        let parts = Parts { dataset, network, method, budget: *budget };
                        cells.extend(self.cell(&parts, sets)?);
                    }
                }
            }
        }
        self.ensure_apart(&cells)?;
        let methods: Vec<Labelled> = compared.into_iter().map(|method| method.entry).collect();
        if let Some(found) = &self.reference {
            self.ensure_known("reference", "reference", found, &methods)?;
        }
        self.check_paper([&datasets, &networks, &methods])?;
        Ok(cells)
    }

    /// One experiment; nothing, if another budget has the same.
    fn cell(&self, parts: &Parts<'_>, sets: &[String]) -> Result<Option<Cell>, CompareError> {
        let mut experiment = self.combined(parts, sets)?;
        ensure_the_same_is_compared(&self.combined(parts, &[])?, &experiment, sets)?;
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
        if outer_of.is_some()
            && let Some(reason) = not_averaged(&experiment)
        {
            let label = &entry.label;
            return Err(self.source.mistake_at(
                &entry.place,
                format_args!(
                    "{label:?} must be `outer_of` a method `hwa` with several models, all of \
                     whose outer weights are kept; {trained} {reason}"
                ),
            ));
        }
        Ok(Some(Cell {
            dataset: dataset.to_owned(),
            network: network.to_owned(),
            method: entry.label.clone(),
            folder: format!("{d}/{n}/{m}{suffix}"),
            experiment,
            outer_of: outer_of.clone(),
            places: parts.places(),
        }))
    }

    /// What the keys of all parts make together.
    fn combined(&self, parts: &Parts<'_>, sets: &[String]) -> Result<Experiment, CompareError> {
        let mut keys = self.experiment.clone();
        for part in [parts.dataset, parts.network, &parts.method.entry] {
            merge(&mut keys, &part.keys);
        }
        for key in ["name", "seed", "budget"] {
            if keys.contains_key(key) {
                let reason = format!(
                    "`{key}` is no key of an experiment here: the file itself has `name`, \
                     `seeds` and `budgets`"
                );
                let of_one = parts.places().into_iter().map(|place| format!("{place}.{key}"));
                let mut of_one = of_one.filter(|place| self.source.has(place));
                let place = of_one.next().unwrap_or_default();
                return Err(self.source.mistake_at(&place, reason));
            }
        }
        let text = toml::to_string(&keys).map_err(|e| CompareError::Mistake(e.to_string()))?;
        // Each part is one that can be read: what is left to go wrong is a `--set`.
        Ok(Experiment::parse(&text, Path::new(&self.name), sets)?)
    }

    /// A figure under a label that nothing has would be missed by nobody.
    fn check_paper(&self, labels: [&[Labelled]; 3]) -> Result<(), CompareError> {
        let [datasets, networks, methods] = labels;
        for (dataset, by_network) in &self.paper {
            self.ensure_known("paper", "paper", dataset, datasets)?;
            for (network, by_method) in by_network {
                self.ensure_known(&format!("paper.{dataset}"), "paper", network, networks)?;
                for method in by_method.keys() {
                    let key = format!("paper.{dataset}.{network}");
                    self.ensure_known(&key, &format!("{key}.{method}"), method, methods)?;
                }
            }
        }
        Ok(())
    }

    /// An error, unless a label is one of these.
    fn ensure_known(
        &self,
        key: &str,
        place: &str,
        label: &str,
        known: &[Labelled],
    ) -> Result<(), CompareError> {
        if known.iter().any(|entry| entry.label == label) {
            return Ok(());
        }
        let known = labels(known);
        let reason = format!("`{key}` must be one of {known}, found {label:?}");
        Err(self.source.mistake_at(place, reason))
    }

    /// Runs of two entries would be each other's.
    fn ensure_apart(&self, cells: &[Cell]) -> Result<(), CompareError> {
        let own = cells.iter().filter(|cell| cell.outer_of.is_none());
        let folders: Vec<&String> = own.map(|cell| &cell.folder).collect();
        match repeated(&folders) {
            None => Ok(()),
            Some(folder) => Err(self.source.mistake(format_args!(
                "two entries have the same folder, {folder}; give them other labels"
            ))),
        }
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
    /// Where they stand, the one first whose keys count.
    fn places(&self) -> Vec<String> {
        let entries = [&self.method.entry, self.network, self.dataset];
        let own = entries.into_iter().map(|entry| entry.place.clone());
        own.chain(["experiment".to_owned()]).collect()
    }

    /// The labels of data set, network, and the method that is trained.
    fn trained(&self) -> [&'a str; 3] {
        let Compared { entry, outer_of } = self.method;
        [&self.dataset.label, &self.network.label, outer_of.as_ref().unwrap_or(&entry.label)]
            .map(String::as_str)
    }
}

/// However a `--set` is written: under its label nothing else must be trained.
fn ensure_the_same_is_compared(
    written: &Experiment,
    set: &Experiment,
    sets: &[String],
) -> Result<(), CompareError> {
    let named = |experiment: &Experiment| {
        let Experiment { method, model, data, .. } = experiment;
        [
            ("method", method.name().to_owned()),
            ("model.name", model.name.clone()),
            ("data.dataset", data.dataset.clone()),
        ]
    };
    let mut pairs = named(written).into_iter().zip(named(set));
    match pairs.find(|(written, set)| written != set) {
        None => Ok(()),
        Some(((key, written), (_, found))) => Err(CompareError::Mistake(format!(
            "--set {}: `{key}` is what is compared: it stands in the file as {written:?}, found \
             {found:?}",
            sets.join(" --set ")
        ))),
    }
}

/// Why outer weights are not told apart from the result, if they are not: that is done where
/// several models have windows.
fn not_averaged(experiment: &Experiment) -> Option<String> {
    let (models, every) = (experiment.num_models(), experiment.checkpoints.outer_every);
    match experiment.method {
        Method::Hwa if models.get() == 1 => Some("has one model".to_owned()),
        Method::Hwa if every.get() > 1 => {
            Some(format!("keeps those of every {every} cycles (`checkpoints.outer_every`)"))
        }
        Method::Hwa => None,
        other => Some(format!("is `{}`", other.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::example::TEXT;

    fn cells(text: &str) -> Result<Vec<Cell>, CompareError> {
        Spec::parse(text, Path::new("c.toml"))?.cells(&[])
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
    fn nothing_else_is_trained_under_a_label_however_it_is_set() {
        let spec = Spec::parse(TEXT, Path::new("c.toml")).unwrap();
        for (set, key) in [
            ("model={name=\"resnet32\"}", "model.name"),
            ("data={dataset=\"cifar10\"}", "data.dataset"),
        ] {
            let error = spec.cells(&[set.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}` is what is compared")), "{set}: {error}");
        }
        assert!(spec.cells(&["model={convolution=\"direct\"}".to_owned()]).is_err());
        assert!(spec.cells(&["model.convolution=direct".to_owned()]).is_ok());
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
            ("{ label = \"a\", outer_of = 3 }", "`outer_of` must be one of sgd, HWA, found 3"),
            ("{ outer_of = \"HWA\" }", "the entry `outer_of = \"HWA\"` needs a `label`"),
            (
                "{ label = \"a\", outer_of = \"sgd\" }",
                "a method `hwa` with several models, all of whose outer weights are kept; sgd is `sgd`",
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
        let starts = |text: &str, expected: &str| {
            assert!(error(text).starts_with(expected), "{}", error(text));
        };
        let unknown = TEXT.replace("num_models = 3", "num_modls = 3");
        starts(&unknown, "c.toml: line 4: in methods, entry \"HWA\": there is no key `hwa.num_mod");
        let common = TEXT.replace("epochs = 4", "epochz = 4");
        starts(&common, "c.toml: line 8: in [experiment]: there is no key `schedule.epochz`; did");
        let misspelt = TEXT.replace("method = \"hwa\"", "methd = \"hwa\"");
        starts(
            &misspelt,
            "c.toml: line 4: in methods, entry \"HWA\": there is no key `methd`; did",
        );
        let value = TEXT.replace("rate = 0.05", "rate = \"fast\"");
        starts(&value, "c.toml: line 5: in networks, entry \"resnet20\": `optimizer.rate`: expect");
        let same = TEXT.replace("\"sgd\",", "\"sgd\", \"sgd\",");
        starts(&same, "c.toml: line 4: in methods, \"sgd\" and \"sgd\" have the same folder, sgd;");
        let total = TEXT.replace("\"sgd\",", "{ label = \"HWA total\", method = \"sgd\" },");
        let expected = "two entries have the same folder, digits/resnet8/hwa-total";
        assert!(error(&total).contains(expected), "{}", error(&total));
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
        starts(&typo, "c.toml: line 4: in methods, entry \"sgdd\": `method`: expected one of sgd,");
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
        let expected = "`paper.digits.resnet20.HWA` must be from 0 to 100, found NaN";
        assert!(error(&paper).contains(expected), "{}", error(&paper));
        let experiment = "name = \"a\"\n[model]\nname = \"resnet8\"\n";
        starts(experiment, "c.toml is an experiment, no comparison: hwa train c.toml");
        let name = TEXT.replace("\"mine\"", "\"mi\\nne\"");
        assert!(error(&name).contains("`name` must be the name of a folder"), "{}", error(&name));
        for (key, value) in [("title", "\"a\\nb\""), ("notes", "[\"a\", \"b\\tc\"]")] {
            let text = format!("{key} = {value}\n{TEXT}");
            let expected = format!("line 1: `{key}` must be a line, found ");
            assert!(error(&text).contains(&expected), "{}", error(&text));
        }
        let window = TEXT.replace("[\"sgd\",", "[{ label = \"HWA, I = 5\", method = \"sgd\" },");
        let expected = "\"HWA, I = 5\" is what a row of a window of \"HWA\" is called";
        assert!(error(&window).contains(expected), "{}", error(&window));
    }
}
