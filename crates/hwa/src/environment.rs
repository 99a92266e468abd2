//! What a run ran on, for `environment.json`.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread::available_parallelism;

use hwa_store::{StoreError, read_to_string, write_atomically};
use hwa_train::Usage;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// What a run ran on.
#[derive(Debug, Serialize)]
pub(crate) struct Environment {
    version: &'static str,
    commit: &'static str,
    cpu: String,
    cores: usize,
    threads_per_model: usize,
    arithmetic: String,
    system: String,
    /// The ranks of a run in several processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ranks: Vec<RankPlace>,
}

/// Where one of several processes runs, and what it has.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RankPlace {
    pub(crate) host: String,
    /// Its models, by number.
    pub(crate) models: Vec<usize>,
    pub(crate) arithmetic: String,
    /// Models that share its cores, those of other ranks included.
    #[serde(skip)]
    pub(crate) sharing: usize,
}

impl Environment {
    pub(crate) fn new(threads_per_model: usize, ranks: Vec<RankPlace>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("HWA_COMMIT"),
            cpu: cpu().unwrap_or_else(|| "unknown".to_owned()),
            cores: cores(),
            threads_per_model,
            arithmetic: arithmetic(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            ranks,
        }
    }
}

/// What a run went on with, and after how many steps of each model.
#[derive(Debug, Serialize)]
pub(crate) struct Resumed {
    pub(crate) after_steps: Vec<u64>,
    /// Models that were left out from here on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) without_replicas: Vec<usize>,
    #[serde(flatten)]
    pub(crate) environment: Environment,
}

impl Resumed {
    /// Adds this to the list `resumed` in the file. What the file says of the
    /// beginning stays, and so does what it says of other resumptions.
    pub(crate) fn record(&self, path: &Path) -> Result<(), Failure> {
        let json = |source| StoreError::Json { path: path.to_owned(), source };
        let mut recorded: Map<String, Value> = match path.exists() {
            true => serde_json::from_str(&read_to_string(path)?).map_err(json)?,
            false => Map::new(),
        };
        let list = recorded.entry("resumed").or_insert_with(|| json!([]));
        match list.as_array_mut() {
            Some(list) => list.push(serde_json::to_value(self).map_err(json)?),
            None => {
                let reason = format!("{}: `resumed` is not a list", path.display());
                return Err(Failure::Run(anyhow::Error::msg(reason)));
            }
        }
        let text = serde_json::to_string_pretty(&recorded).map_err(json)?;
        Ok(write_atomically(path, |file| writeln!(file, "{text}"))?)
    }
}

/// What decides the bits: the instruction path, and the CPU, whose caches decide
/// how the tensor library cuts up its sums.
pub(crate) fn arithmetic() -> String {
    let cpu = cpu().unwrap_or_else(|| "an unknown CPU".to_owned());
    format!("{} on {cpu}", hwa_nn::arithmetic())
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    available_parallelism().map_or(1, NonZeroUsize::get)
}

fn cpu() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The most memory that this process has held, where the system tells.
pub(crate) fn peak_memory_mb() -> Option<f64> {
    let peak = Usage::of_this_process().peak_memory_mb;
    (peak > 0.0).then_some(peak)
}
