//! How long to sleep while something is waited for.

use std::time::{Duration, Instant};

/// The shortest sleep between two looks.
const SHORTEST: Duration = Duration::from_micros(20);

/// A share of what was waited already, so that a wait is neither much longer than it must be
/// nor a burden on the machine; `longest` at most.
pub fn pause_after(began: Instant, longest: Duration) -> Duration {
    (began.elapsed() / 16).clamp(SHORTEST, longest.max(SHORTEST))
}
