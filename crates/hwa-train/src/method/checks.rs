//! Values that no run can have, or no run of the method.

use super::value;
use crate::experiment::{Experiment, Method};
use crate::parse::ExperimentError;
use crate::settings::{Candidates, Settings};

/// Each is a thread, and all meet every cycle: more is a mistake in writing.
const MOST_MODELS: usize = 4096;

impl Experiment {
    /// Each by itself.
    pub(super) fn check_numbers(&self) -> Result<(), ExperimentError> {
        // It names a folder under runs/, and nothing outside of it.
        let is_line = !self.name.contains(|letter: char| letter.is_control());
        let is_inside = !self.name.contains(['/', '\\']) && !self.name.trim_matches('.').is_empty();
        if self.name.trim().is_empty() || !is_line || !is_inside {
            let reason = format!("must be the name of a folder, found {:?}", self.name);
            return Err(value("name", reason));
        }
        let within = |key, found: f64, low: f64, high: f64| {
            if found >= low && found <= high {
                return Ok(());
            }
            let expected = match high {
                f64::MAX => format!("a finite number of at least {low}"),
                high => format!("from {low} to {high}"),
            };
            Err(value(key, format!("must be {expected}, found {found}")))
        };
        let models = self.num_models();
        if models.get() > MOST_MODELS {
            let reason = format!("must be at most {MOST_MODELS}, found {models}");
            return Err(value("hwa.num_models", reason));
        }
        let momentum = self.optimizer.momentum;
        if !(0.0..1.0).contains(&momentum) {
            let reason = format!("must be at least 0 and below 1, found {momentum}");
            return Err(value("optimizer.momentum", reason));
        }
        within("optimizer.weight_decay", self.optimizer.weight_decay, 0.0, f64::MAX)?;
        if let Some(rho) = self.optimizer.rho {
            within("optimizer.rho", rho, 0.0, f64::MAX)?;
        }
        let (alpha, decay) = (self.lookahead.alpha, self.ema.decay);
        if !(alpha > 0.0 && alpha <= 1.0) {
            let reason = format!("must be above 0 and at most 1, found {alpha}");
            return Err(value("lookahead.alpha", reason));
        }
        if !(0.0..1.0).contains(&decay) {
            let reason = format!("must be at least 0 and below 1, found {decay}");
            return Err(value("ema.decay", reason));
        }
        within("fg.a", self.fg.a, 0.0, 1.0)?;
        within("fg.c", self.fg.c, 0.0, f64::MAX)?;
        within("repr.share", self.repr.share, 0.0, 0.5)?;
        self.check_method()?;
        within("evaluate.tolerance", self.evaluate.tolerance, 0.0, 1.0)
    }

    /// What single methods cannot do.
    fn check_method(&self) -> Result<(), ExperimentError> {
        match self.method {
            Method::Fg if self.hwa.num_models.get() < 2 => {
                Err(value("hwa.num_models", "must be at least 2 with `method = \"fg\"`, found 1"))
            }
            Method::Repr if self.repr.times == 0 => {
                Err(value("repr.times", "must be at least 1, found 0"))
            }
            // The point nearby would have all filters.
            Method::Repr if self.optimizer.rho.is_some() => {
                Err(value("optimizer.rho", "cannot be set with `method = \"repr\"`"))
            }
            _ => Ok(()),
        }
    }

    /// What depends on the numbers that came out.
    pub(super) fn check_against(&self, settings: &Settings) -> Result<(), ExperimentError> {
        let cycles = settings.plan.num_cycles();
        if let Some(wrong) = self.checkpoints.inner_cycles.iter().find(|c| **c < 1 || **c > cycles)
        {
            let reason = format!("must lie between 1 and {cycles}, found {wrong}");
            return Err(value("checkpoints.inner_cycles", reason));
        }
        let (period, budget) = (self.lookahead.period, settings.plan.max_steps);
        if self.method == Method::Lookahead && period > budget {
            // The slow weights would be those that it began with.
            let reason = format!("must be at most the budget of {budget} steps, found {period}");
            return Err(value("lookahead.period", reason));
        }
        if self.evaluate.train_images.is_some() && settings.candidates == Candidates::Models {
            let reason = "needs a method whose result is an average, found `fg`";
            return Err(value("evaluate.train_images", reason));
        }
        if self.evaluate.test_curve && settings.candidates == Candidates::Models {
            let reason = "needs a method whose result is an average, found `fg`";
            return Err(value("evaluate.test_curve", reason));
        }
        if self.evaluate.test_curve && self.checkpoints.outer_every.get() > 1 {
            return Err(value("evaluate.test_curve", "needs `checkpoints.outer_every = 1`"));
        }
        Ok(())
    }
}
