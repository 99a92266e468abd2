//! What this process has used of the machine, as far as the system tells.

use serde::{Deserialize, Serialize};

/// What was used of the machine; what the system does not tell is zero.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Seconds of all cores together. They do not depend on what else runs beside.
    pub cpu: f64,
    /// The most memory that was held at once, in MB.
    pub peak_memory_mb: f64,
}

impl Usage {
    /// Of this process, since it began.
    pub fn of_this_process() -> Self {
        own().unwrap_or_default()
    }

    /// What a run used that went on: `earlier` before this process began, and this since
    /// `beginning`.
    pub fn since(self, beginning: Self, earlier: Self) -> Self {
        Self {
            cpu: earlier.cpu + (self.cpu - beginning.cpu),
            peak_memory_mb: earlier.peak_memory_mb.max(self.peak_memory_mb),
        }
    }
}

#[cfg(unix)]
fn own() -> Option<Usage> {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;

    // Kilobytes, bytes on macOS.
    let unit = if cfg!(target_vendor = "apple") { 1.0 } else { 1024.0 };
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let microseconds = (usage.user_time() + usage.system_time()).num_microseconds();
    let bytes = peak_on_linux().unwrap_or(usage.max_rss() as f64 * unit);
    Some(Usage { cpu: microseconds as f64 / 1e6, peak_memory_mb: (bytes / 1_048_576.0).round() })
}

/// What `getrusage` says on Linux may be the peak of the process that started this one.
#[cfg(unix)]
fn peak_on_linux() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024.0)
}

#[cfg(not(unix))]
fn own() -> Option<Usage> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_went_on_used_both() {
        let use_of = |cpu, peak_memory_mb| Usage { cpu, peak_memory_mb };
        let both = use_of(7.0, 300.0).since(use_of(2.0, 100.0), use_of(10.0, 500.0));
        assert_eq!(both, use_of(15.0, 500.0));
    }

    #[cfg(unix)]
    #[test]
    fn work_takes_time_and_memory() {
        let before = Usage::of_this_process();
        let sum = (0..20_000_000u64).fold(0, |sum: u64, i| sum.wrapping_add(i * i));
        assert!(std::hint::black_box(sum) > 0);
        let after = Usage::of_this_process();
        assert!(after.cpu > before.cpu && after.peak_memory_mb > 1.0, "{before:?} {after:?}");
    }
}
