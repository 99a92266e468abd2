//! `hwa bench average`: averages of checkpoints on disk, beside reading them as they are.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use hwa_core::seed::{Purpose, Random};
use hwa_core::{Role, Tensor, Values, Weights, WindowSpec};
use hwa_nn::{ModelSpec, Origin, SgdConfig};
use hwa_store::{Averaging, Metadata, Order, Series, SeriesError, StoreError, write_tensors};
use hwa_train::Replica;
use serde_json::json;

use super::{median, megabytes};
use crate::arguments::BenchAverage;
use crate::environment;
use crate::failure::Failure;
use crate::output::{give, tell};
use crate::series::limits;

/// Runs the command.
pub(crate) fn run(arguments: &BenchAverage) -> Result<(), Failure> {
    match &arguments.series {
        Some(series) => measure(arguments, series),
        None => on_made_up(arguments),
    }
}

/// What was measured, in seconds.
#[derive(Default)]
struct Measured {
    read: Vec<f64>,
    computed: Vec<f64>,
    written: Vec<f64>,
    windows: Vec<f64>,
}

fn measure(arguments: &BenchAverage, folder: &Path) -> Result<(), Failure> {
    let open = || Series::open(&[folder.to_owned()], Order::Name);
    let series = open()?;
    let limits = limits(arguments.max_memory, arguments.threads);
    let everything = series.everything();
    let length = arguments.window.or_else(|| NonZeroUsize::new(series.len()));
    let windows = series.windows(WindowSpec::sliding(length.unwrap_or(NonZeroUsize::MIN)));
    let out = std::env::temp_dir().join("hwa-bench-average.safetensors");
    let mut measured = Measured::default();
    series.read_plainly(limits)?;
    // Files are opened anew each time, and their checksums compared, as whoever averages them does.
    let afresh = |work: &dyn Fn(&Averaging<'_>) -> Result<(), SeriesError>| {
        seconds(|| work(&Averaging { limits, ..Averaging::new(&open()?) }))
    };
    for _ in 0..arguments.rounds.get() {
        measured.read.push(seconds(|| series.read_plainly(limits).map(drop))?);
        measured.computed.push(afresh(&|mean| mean.compute(std::slice::from_ref(&everything)))?);
        measured.written.push(afresh(&|mean| mean.write_unflushed(&everything, &out))?);
        // Whoever wants an average keeps it: taking it away again is not its time.
        fs::remove_file(&out).map_err(StoreError::io("remove", &out))?;
        measured.windows.push(afresh(&|mean| mean.compute(&windows))?);
    }
    let Measured { read, computed, written, windows: slid } = measured;
    let (read, computed, written, slid) =
        (median(read), median(computed), median(written), median(slid));
    let bytes = series.num_file_bytes();
    let speed = |seconds: f64| bytes as f64 / 1e9 / seconds;
    let peak = environment::peak_memory_mb();
    let threads = limits.threads;
    if arguments.json {
        give(json!({
            "files": series.len(), "bytes": bytes, "threads": threads, "rounds": arguments.rounds,
            "seconds": written, "gb_per_second": speed(written),
            "read_gb_per_second": speed(read), "ratio": read / written,
            "computed_seconds": computed, "computed_ratio": read / computed,
            "windows": windows.len(), "window_length": length, "windows_seconds": slid,
            "peak_rss_mb": peak,
        }));
        return Ok(());
    }
    give(format_args!(
        "mean of {} files, {:.2} GB: {written:.3} s, {:.1} GB/s on {threads} threads",
        series.len(),
        bytes as f64 / 1e9,
        speed(written)
    ));
    give(format_args!(
        "reading alone: {:.1} GB/s; the mean runs at {:.0} % of that, without writing at {:.0} %",
        speed(read),
        100.0 * read / written,
        100.0 * read / computed
    ));
    give(format_args!(
        "{} windows of length {}, not written: {slid:.3} s; peak memory {}",
        windows.len(),
        length.map_or(0, NonZeroUsize::get),
        megabytes(peak)
    ));
    Ok(())
}

fn seconds<E: Into<Failure>>(work: impl FnOnce() -> Result<(), E>) -> Result<f64, Failure> {
    let began = Instant::now();
    work().map_err(Into::into)?;
    Ok(began.elapsed().as_secs_f64())
}

/// Makes checkpoints up, and measures in a process of its own: this one's memory was used for
/// making them.
fn on_made_up(arguments: &BenchAverage) -> Result<(), Failure> {
    let name = format!("hwa-bench-average-{}", std::process::id());
    let folder = Removed(std::env::temp_dir().join(name));
    fs::create_dir_all(&folder.0).map_err(StoreError::io("create", &folder.0))?;
    make(arguments, &folder.0)?;
    let program = std::env::current_exe().map_err(|error| Failure::Run(error.into()))?;
    let mut command = Command::new(program);
    command.args(["bench", "average"]).arg(&folder.0);
    command.args(["--rounds", &arguments.rounds.to_string()]);
    command.args(["--max-memory", &arguments.max_memory.to_string()]);
    if let Some(window) = arguments.window {
        command.args(["--window", &window.to_string()]);
    }
    if let Some(threads) = arguments.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    if arguments.json {
        command.arg("--json");
    }
    let status = command.status().map_err(|error| Failure::Run(error.into()))?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::Run(anyhow::anyhow!("measuring failed: {status}"))),
    }
}

/// A folder that goes when it is not needed any more.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tell(format_args!("{} is left: {error}", self.0.display()));
        }
    }
}

/// Weights of a network, a little different each time.
fn make(arguments: &BenchAverage, folder: &Path) -> Result<(), Failure> {
    let spec: ModelSpec = arguments.model.parse()?;
    let config = SgdConfig { momentum: 0.0, weight_decay: 0.0 };
    let replica = spec.build(spec.usual_task(), Origin { seed: 0, replica: 0 }, config)?;
    let state = replica.state()?.weights;
    for number in 1..=arguments.count.get() {
        let mut random = Random::new(1, 0, Purpose::Recalibrate, [number as u64, 0]);
        let mut weights = Weights::new();
        for (name, tensor) in state.iter() {
            let near = near(tensor, &mut random).map_err(|error| Failure::Run(error.into()))?;
            weights.insert(name, near).map_err(|error| Failure::Run(error.into()))?;
        }
        let path = folder.join(format!("outer-{number:06}.safetensors"));
        write_tensors(&path, &weights, &Metadata::new())?;
    }
    Ok(())
}

fn near(tensor: &Tensor, random: &mut Random) -> Result<Tensor, hwa_core::WeightsError> {
    let noise = |random: &mut Random| (random.bits() >> 40) as f32 * 1e-9;
    let values = match tensor.values() {
        Values::F32(values) if tensor.role() != Role::Counter => {
            Values::F32(values.iter().map(|x| x + noise(random)).collect())
        }
        other => other.clone(),
    };
    Tensor::new(tensor.role(), tensor.shape().to_vec(), values)
}
