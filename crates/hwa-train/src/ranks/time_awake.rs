//! Time as a process has seen it that may be suspended.
//!
//! Whoever suspends all ranks of a run, and lets them go on later, has made none of them late.
//! Clocks go on meanwhile. So whoever waits looks often, and a look that comes much later than it
//! should counts for little.

use std::time::{Duration, Instant};

/// Looks come much more often than this, unless the process was suspended.
pub(super) const GAP: Duration = Duration::from_secs(1);

/// The time since something began, without what its process was suspended. It is right if it is
/// looked at many times a second.
#[derive(Debug, Clone, Copy)]
pub struct TimeAwake {
    spent: Duration,
    looked: Instant,
}

impl From<Instant> for TimeAwake {
    fn from(began: Instant) -> Self {
        Self { spent: Duration::ZERO, looked: began }
    }
}

impl TimeAwake {
    /// What has passed by now.
    pub fn until(&mut self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.looked);
        self.spent += since.saturating_sub(suspended(since));
        self.looked = now;
        self.spent
    }
}

/// How long a process was suspended that looked so long ago.
pub(super) fn suspended(since: Duration) -> Duration {
    if since > GAP { since } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_was_suspended_is_not_counted() {
        let began = Instant::now();
        let mut time = TimeAwake::from(began);
        let at = |milliseconds| began + Duration::from_millis(milliseconds);
        // 100 ms, an hour, 200 ms.
        assert_eq!(time.until(at(100)), Duration::from_millis(100));
        assert_eq!(time.until(at(3_600_100)), Duration::from_millis(100));
        assert_eq!(time.until(at(3_600_300)), Duration::from_millis(300));
    }
}
