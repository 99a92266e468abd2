//! A series of two numbers, and a command that knows what its averages are worth.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hwa_core::{Role, Tensor, Values, Weights};
use hwa_store::{Metadata, write_tensors};

use super::command::hwa;

/// The members of the window that is worth most.
const PEAK: std::ops::RangeInclusive<i32> = 9..=14;

/// A folder with a series of two numbers, and a command that knows what its averages are worth.
///
/// Checkpoint `i` is `i` and `i` times `i`: the means of both tell windows apart.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new(count: i32) -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(bench.series()).unwrap();
        for i in 1..=count {
            let x = f64::from(i);
            write(&bench.series().join(format!("e-{i}.safetensors")), &[x, x * x]);
        }
        let means = |power: i32| {
            let sum: f64 = PEAK.map(|i| f64::from(i).powi(power)).sum();
            sum / PEAK.count() as f64
        };
        // The numbers are the last sixteen bytes. It says nothing of note on the way.
        bench.script(
            "eval.sh",
            &format!(
                "echo called >> {calls}\n\
                 if [ -e {slow} ] && [ $(wc -l < {calls}) -gt 5 ]; then\n\
                 echo $$ > {pid}; sleep 600; fi\n\
                 echo evaluating \"$1\"\n\
                 tail -c 16 \"$1\" | od -An -t f8 | \
                 awk '{{ a = $1 - {a}; b = $2 - {b}; print \"score:\", 10 - a*a - b*b/400 }}'",
                calls = bench.at("calls").display(),
                slow = bench.at("slow").display(),
                pid = bench.at("pid").display(),
                a = means(1),
                b = means(2),
            ),
        );
        bench
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn series(&self) -> PathBuf {
        self.at("series")
    }

    pub(crate) fn script(&self, name: &str, script: &str) -> String {
        fs::write(self.at(name), script).unwrap();
        format!("sh '{}' {{weights}}", self.at(name).display())
    }

    pub(crate) fn calls(&self) -> usize {
        fs::read_to_string(self.at("calls")).unwrap_or_default().lines().count()
    }

    pub(crate) fn command(&self, out: &str, eval: &str, more: &[&str]) -> Command {
        let mut command = hwa(&["search", "--eval", eval, "--maximize", "-o"]);
        command.arg(self.at(out)).arg(self.series()).args(more);
        command
    }

    pub(crate) fn search(&self, out: &str, more: &[&str]) -> Output {
        let eval = format!("sh '{}' {{weights}}", self.at("eval.sh").display());
        self.command(out, &eval, more).output().unwrap()
    }

    pub(crate) fn names(&self, out: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(out)).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

pub(crate) fn write(path: &Path, values: &[f64]) {
    let mut weights = Weights::new();
    let values = Values::F64(values.to_vec());
    let tensor = Tensor::new(Role::Parameter, vec![values.len()], values).unwrap();
    weights.insert("w", tensor).unwrap();
    write_tensors(path, &weights, &Metadata::new()).unwrap();
}
