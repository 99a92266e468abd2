//! `hwa bench sync`: training steps that are averaged over MPI, each of them.

use std::time::{Duration, Instant};

use hwa_data::Position;
use hwa_mpi::World;
use hwa_nn::{ModelSpec, Origin, SgdConfig};
use hwa_train::{Ranks, Reason, Replica, Step, Terms, Transport};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::step::{RATE, noise};
use super::{median, task};
use crate::arguments::{BenchSync, Steps};
use crate::failure::Failure;
use crate::output::give;

/// A rank that takes longer over a step is given up.
const DEADLINE: Duration = Duration::from_secs(600);

/// What one rank has measured.
#[derive(Serialize, Deserialize)]
struct Measured {
    step: f64,
    sync: f64,
    bytes: u64,
}

/// Runs the command.
pub(crate) fn run(arguments: &BenchSync) -> Result<(), Failure> {
    let launch = hwa_mpi::launched();
    let launch = launch.ok_or_else(|| Failure::usage("start it with mpirun or srun"))?;
    let last_words = |reason: Reason<'_>| Failure::from(reason).report_code();
    let mut world = World::new(DEADLINE, last_words).map_err(|error| Failure::Run(error.into()))?;
    let known = Transport::size(&world);
    launch.ensure_complete(known).map_err(|alone| Failure::usage(alone.to_string()))?;
    let mut ranks = Ranks::new(&mut world, DEADLINE);
    ranks.keep_to(Terms { deadline: DEADLINE, ..Terms::default() });
    let measured = measure(arguments, &mut ranks);
    measured.unwrap_or_else(|failure| world.abort(failure.report_code().into()));
    Ok(())
}

fn measure(arguments: &BenchSync, ranks: &mut Ranks<'_>) -> Result<(), Failure> {
    // Of this thread too: no other may call MPI.
    let threads = rayon::ThreadPoolBuilder::new().num_threads(arguments.steps.threads.get());
    let pool = threads.use_current_thread().build();
    let _pool = pool.map_err(|error| Failure::Run(error.into()))?;
    let mine = steps(&arguments.steps, ranks)?;
    let all = ranks.gather(serde_json::to_string(&mine)?)?;
    if ranks.rank() == 0 {
        let all = all.iter().map(|text| serde_json::from_str(text));
        show(arguments, &all.collect::<Result<Vec<Measured>, _>>()?);
    }
    // Nobody leaves while another still says something.
    ranks.broadcast(String::new())?;
    Ok(())
}

fn steps(arguments: &Steps, ranks: &mut Ranks<'_>) -> Result<Measured, Failure> {
    let spec: ModelSpec = arguments.model.parse()?;
    let task = task(spec, arguments.size, arguments.classes);
    let config = SgdConfig { momentum: 0.9, weight_decay: 5e-4 };
    let mut replica = spec.build(task, Origin { seed: 1, replica: 0 }, config)?;
    let number = ranks.rank() as u32;
    let batch = noise(task, arguments.batch.get(), number);
    let mut position = Position { seed: 1, replica: number, step: 0 };
    let (mut whole, mut averaging, mut bytes) = (Vec::new(), Vec::new(), 0);
    for step in 0..arguments.warmup + arguments.steps.get() {
        let began = Instant::now();
        replica.step(&batch, Step { rate: RATE, position })?;
        position.step += 1;
        let (stepped, before) = (Instant::now(), ranks.bytes());
        let mean = ranks.mean(&replica.weights()?)?;
        replica.load(&mean)?;
        if step >= arguments.warmup {
            whole.push(began.elapsed().as_secs_f64());
            averaging.push(stepped.elapsed().as_secs_f64());
            bytes = ranks.bytes() - before;
        }
    }
    Ok(Measured { step: median(whole), sync: median(averaging), bytes })
}

fn show(arguments: &BenchSync, all: &[Measured]) {
    let steps = &arguments.steps;
    let slowest = |of: fn(&Measured) -> f64| all.iter().map(of).fold(0.0, f64::max) * 1e3;
    let (step_ms, sync_ms) = (slowest(|one| one.step), slowest(|one| one.sync));
    let images = steps.batch.get() as f64;
    let images_per_second: f64 = all.iter().map(|one| images / one.step).sum();
    let (ranks, bytes) = (all.len(), all.first().map_or(0, |one| one.bytes));
    if arguments.json {
        give(json!({
            "model": steps.model, "batch": steps.batch, "ranks": ranks,
            "threads": steps.threads, "step_ms": step_ms, "sync_ms": sync_ms,
            "bytes": bytes, "images_per_second": images_per_second,
        }));
    } else {
        give(format_args!(
            "{}: {step_ms:.2} ms a step on {ranks} ranks, {sync_ms:.2} ms of it to average \
             (slower ranks waited for, {bytes} bytes moved by rank 0)",
            steps.model
        ));
    }
}
