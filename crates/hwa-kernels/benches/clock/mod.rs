//! How long work takes.

use std::time::Instant;

/// The best time of several, in seconds.
pub(crate) fn best(mut work: impl FnMut()) -> f64 {
    best_of(|| {
        let begin = Instant::now();
        work();
        [begin.elapsed().as_secs_f64()]
    })[0]
}

/// The best of several times that work tells itself, each by itself.
pub(crate) fn best_of<const N: usize>(mut work: impl FnMut() -> [f64; N]) -> [f64; N] {
    let (mut best, start) = ([f64::INFINITY; N], Instant::now());
    for i in 0.. {
        let times = work();
        best = std::array::from_fn(|n| best[n].min(times[n]));
        if i >= 2 && start.elapsed().as_secs_f64() > 0.4 {
            break;
        }
    }
    best
}

/// Whether a part of a bench is wanted: all are, unless the command line names some.
pub(crate) fn is_wanted(part: &str) -> bool {
    let mut named = std::env::args().skip(1).filter(|a| !a.starts_with('-')).peekable();
    named.peek().is_none() || named.any(|name| name == part)
}

/// Runs on one thread.
pub(crate) fn on_one_thread(work: impl FnOnce() + Send) {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work);
}
