//! What tells experiments apart: the keys whose values differ.

use std::collections::BTreeMap;

use crate::record::Record;

/// What may differ between runs that are repetitions of each other: seeds, names, what is only
/// logged, kept or measured in the end, and where and with what they were trained, which changes
/// no bit.
const IDLE: [&str; 9] = [
    "seed",
    "name",
    "log",
    "threads",
    "checkpoints",
    "evaluate.test_curve",
    "data.dir",
    "data.cache_mib",
    "data.decoders",
];

/// Every key of an experiment by its path, without those that make no other experiment.
pub(crate) fn settings(experiment: &str) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let Ok(table) = experiment.parse::<toml::Table>() else { return settings };
    for (key, value) in &table {
        collect(key, value, &mut settings);
    }
    settings
}

fn collect(path: &str, value: &toml::Value, settings: &mut BTreeMap<String, String>) {
    if IDLE.contains(&path) {
        return;
    }
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                collect(&format!("{path}.{key}"), value, settings);
            }
        }
        toml::Value::String(text) => drop(settings.insert(path.to_owned(), text.clone())),
        other => drop(settings.insert(path.to_owned(), other.to_string())),
    }
}

/// The keys that differ between experiments, each with the value that every one has for it.
pub(crate) fn differences(
    settings: &[BTreeMap<String, String>],
) -> Vec<(String, Vec<Option<String>>)> {
    let mut keys: Vec<&String> = settings.iter().flat_map(BTreeMap::keys).collect();
    keys.sort();
    keys.dedup();
    let values = |key: &String| settings.iter().map(|of| of.get(key).cloned()).collect();
    keys.into_iter()
        .map(|key| (key.clone(), values(key)))
        .filter(|(_, values): &(_, Vec<Option<String>>)| values.iter().any(|v| *v != values[0]))
        .collect()
}

/// Runs that are repetitions of each other, by what tells them apart from the others: the method,
/// and where that does not, the keys that differ among those of the method.
pub(crate) fn groups(records: &[Record]) -> Vec<(String, Vec<&Record>)> {
    let mut groups: Vec<(BTreeMap<String, String>, Vec<&Record>)> = Vec::new();
    for record in records {
        let settings = settings(&record.experiment);
        match groups.iter_mut().find(|(known, _)| *known == settings) {
            Some((_, runs)) if !settings.is_empty() => runs.push(record),
            _ => groups.push((settings, vec![record])),
        }
    }
    let method = |of: &BTreeMap<String, String>| of.get("method").cloned();
    let name = |of: &BTreeMap<String, String>, runs: &[&Record]| {
        let Some(word) = method(of) else { return runs[0].name.clone() };
        let alike: Vec<BTreeMap<String, String>> =
            groups.iter().map(|(of, _)| of).filter(|o| method(o) == method(of)).cloned().collect();
        let place = alike.iter().position(|other| other == of).unwrap_or(0);
        let mut name = word;
        let differing = differences(&alike);
        let end = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
        for (key, values) in &differing {
            let value = values[place].clone().unwrap_or_else(|| "not set".to_owned());
            let short = end(key);
            let alone = differing.iter().filter(|(other, _)| end(other) == short).count() == 1;
            let key = if alone { &short } else { key };
            name.push_str(&format!(", {key} {value}"));
        }
        name
    };
    groups.iter().map(|(of, runs)| (name(of, runs), runs.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(experiment: &str) -> Record {
        Record { experiment: experiment.to_owned(), ..Record::default() }
    }

    #[test]
    fn seeds_names_logs_and_machines_make_no_other_group() {
        let runs = [
            record("name = \"a\"\nseed = 1\nmethod = \"hwa\"\n[log]\ntensorboard = true\n"),
            record("seed = 2\nthreads = 1\nmethod = \"hwa\"\n[data]\ndir = \"a\"\ndecoders = 2\n"),
            record("seed = 2\nmethod = \"sgd\"\n"),
        ];
        let groups = groups(&runs);
        let found: Vec<(&str, usize)> = groups.iter().map(|(n, r)| (n.as_str(), r.len())).collect();
        assert_eq!(found, [("hwa", 2), ("sgd", 1)]);
    }

    #[test]
    fn groups_of_one_method_are_named_by_what_differs() {
        let runs = [
            record("method = \"hwa\"\n[hwa]\nnum_models = 2\nsync_period = 3\n"),
            record("method = \"hwa\"\n[hwa]\nnum_models = 4\nsync_period = 3\n"),
            record("method = \"sgd\"\n"),
        ];
        let groups = groups(&runs);
        let names: Vec<&str> = groups.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["hwa, num_models 2", "hwa, num_models 4", "sgd"]);
        let all = runs.map(|run| settings(&run.experiment));
        let keys: Vec<String> = differences(&all).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["hwa.num_models", "hwa.sync_period", "method"]);
    }

    #[test]
    fn keys_that_end_alike_are_told_whole() {
        let run =
            |rate, swa| format!("method = \"swa\"\noptimizer.rate = {rate}\nswa.rate = {swa}\n");
        let runs = [record(&run(0.1, 0.05)), record(&run(0.2, 0.01))];
        let names: Vec<String> = groups(&runs).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names[0], "swa, optimizer.rate 0.1, swa.rate 0.05");
    }
}
