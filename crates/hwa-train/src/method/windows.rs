//! What is averaged over cycles.

use hwa_core::{Plan, WindowLength, WindowSpec};

use super::lengths::Lengths;
use super::value;
use crate::experiment::{Experiment, Method, WindowText};
use crate::parse::ExperimentError;

impl Experiment {
    /// The windows that the method tries; none, if it judges the weights of a cycle alone.
    pub(super) fn windows(
        &self,
        plan: &Plan,
        lengths: &Lengths,
    ) -> Result<Vec<WindowSpec>, ExperimentError> {
        if self.method == Method::Swa {
            // The first sample is the end of the first cycle that lies in stage II.
            let start = lengths.steps(self.swa.start);
            let first_cycle = start.div_ceil(plan.sync_period.get()) as usize + 1;
            if first_cycle > plan.num_cycles() {
                let (budget, cycle) = (plan.max_steps, plan.sync_period);
                let reason = format!(
                    "must leave a cycle for stage II: it begins at step {start} of {budget}, and a \
                     cycle of {cycle} steps that begins then or later has no place; train longer, \
                     or set an earlier `swa.start` or a shorter `hwa.sync_period`"
                );
                return Err(value("swa.start", reason));
            }
            return Ok(vec![WindowSpec::everything_from(first_cycle)]);
        }
        if !self.method.has_window() {
            return Ok(Vec::new());
        }
        let lengths = self.hwa.window_length.as_slice();
        if lengths.is_empty() {
            return Err(value("hwa.window_length", "must name at least one length"));
        }
        let stride = self.hwa.window_stride;
        let cycles = plan.num_cycles();
        if stride.get() > cycles {
            let reason = format!("must be at most the number of cycles ({cycles}), found {stride}");
            return Err(value("hwa.window_stride", reason));
        }
        let spec = |text| {
            let length = window_length(text)?.resolve(cycles);
            if length < stride {
                // Such a window would be empty most of the time.
                let reason =
                    format!("must be at most the window length ({length}), found {stride}");
                return Err(value("hwa.window_stride", reason));
            }
            Ok(WindowSpec { stride, ..WindowSpec::sliding(length) })
        };
        let mut windows: Vec<WindowSpec> = Vec::new();
        for window in lengths.iter().map(spec) {
            let window: WindowSpec = window?;
            // 20 cycles and 10 % of 200 are the same window.
            if !windows.contains(&window) {
                windows.push(window);
            }
        }
        Ok(windows)
    }
}

fn window_length(text: &WindowText) -> Result<WindowLength, ExperimentError> {
    let share = match text {
        WindowText::Cycles(cycles) => return Ok(WindowLength::Cycles(*cycles)),
        WindowText::Share(share) => share,
    };
    let number = share.trim().strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
    match number {
        Some(percent) if percent > 0.0 && percent <= 100.0 => {
            Ok(WindowLength::Share(percent / 100.0))
        }
        _ => {
            let reason = format!("must be cycles (20) or a share (\"10%\"), found {share:?}");
            Err(value("hwa.window_length", reason))
        }
    }
}
