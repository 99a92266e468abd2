//! A smaller experiment of the same shape: fewer epochs and images, as many cycles.

use std::num::NonZeroU64;

use crate::experiment::Experiment;
use crate::parse::ExperimentError;
use crate::span::Span;

/// An experiment for a smaller machine, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaled {
    /// What is trained.
    pub experiment: Experiment,
    /// What is told beside its figures.
    pub note: String,
}

/// Takes `factor` of the epochs and of the training images. H becomes shorter, so that there
/// are as many cycles as before; milestones and stages keep their share of the budget.
pub fn scaled(
    experiment: &Experiment,
    factor: f64,
    images: usize,
) -> Result<Scaled, ExperimentError> {
    let whole = experiment.settings(images)?;
    let mut small = experiment.clone();
    let fewer = |count: u64| ((count as f64 * factor).round() as u64).max(1);
    let per_epoch = hwa_data::steps_per_epoch(images, experiment.optimizer.batch).max(1);
    let shares = Shares { per_epoch, budget: whole.plan.max_steps.get() };
    shares.take(&mut small);

    let fewer_images = fewer(images as u64) as usize;
    let fewer_per_epoch =
        hwa_data::steps_per_epoch(fewer_images, experiment.optimizer.batch).max(1);
    let schedule = &mut small.schedule;
    let budget = match (schedule.epochs, schedule.steps) {
        (_, Some(steps)) => {
            // So much fewer epochs, of so much fewer steps each.
            let epochs = steps.get() as f64 / per_epoch as f64 * factor;
            let fewer_steps = ((epochs * fewer_per_epoch as f64).round() as u64).max(1);
            schedule.steps = NonZeroU64::new(fewer_steps);
            format!("{fewer_steps} of {steps} steps")
        }
        (epochs, None) => {
            let epochs =
                epochs.or(experiment.resolved().schedule.epochs).map_or(1, NonZeroU64::get);
            schedule.epochs = NonZeroU64::new(fewer(epochs));
            format!("{} of {epochs} epochs", fewer(epochs))
        }
    };
    small.data.train_examples = Some(fewer_images);
    small.hwa.sync_period = if experiment.method.counts_cycles_in_epochs() {
        let epochs = Span::Epochs(whole.plan.sync_period.get() as f64 / per_epoch as f64);
        let is_a_step = epochs.steps(fewer_per_epoch, 0) > 0;
        if is_a_step { epochs } else { Span::Steps(1) }
    } else {
        // Whole steps: as many cycles as can be had.
        small.hwa.sync_period = Span::Steps(1);
        let steps = small.settings(fewer_images)?.plan.max_steps.get();
        let period = (steps as f64 / whole.plan.num_cycles() as f64).round().max(1.0) as u64;
        Span::Steps(period)
    };
    let now = small.settings(fewer_images)?;
    drop(small.technique(fewer_images)?);
    let note = format!(
        "{budget}, {fewer_images} of {images} training images, H = {} steps instead of {}: \
         {} cycles instead of {}",
        now.plan.sync_period,
        whole.plan.sync_period,
        now.plan.num_cycles(),
        whole.plan.num_cycles(),
    );
    Ok(Scaled { experiment: small, note })
}

/// Turns lengths in steps or epochs into shares of the budget.
struct Shares {
    per_epoch: u64,
    budget: u64,
}

impl Shares {
    fn take(&self, experiment: &mut Experiment) {
        let Experiment { schedule, swa, repr, .. } = experiment;
        let several = schedule.milestones.iter_mut().flatten();
        let optional =
            [&mut schedule.warmup, &mut schedule.every, &mut schedule.period, &mut swa.period];
        let always = [&mut swa.start, &mut repr.full, &mut repr.pruned];
        for span in optional.into_iter().flatten().chain(always).chain(several) {
            *span = self.share(*span);
        }
    }

    fn share(&self, span: Span) -> Span {
        let steps = span.steps(self.per_epoch, self.budget) as f64;
        Span::Share((steps / self.budget as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::experiment::Method;
    use crate::settings::Settings;

    fn experiment(sets: &[&str]) -> Experiment {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Experiment::parse("schedule.epochs = 200\n", Path::new("e.toml"), &sets).unwrap()
    }

    fn settings(scaled: &Scaled) -> Settings {
        let images = scaled.experiment.data.train_examples.unwrap();
        scaled.experiment.settings(images).unwrap()
    }

    #[test]
    fn a_tenth_has_as_many_cycles_and_the_same_windows() {
        // 45,000 images: 352 steps an epoch. 4,500: 36, in 20 epochs 720, of 4 a cycle.
        let whole = experiment(&[]);
        let small = scaled(&whole, 0.1, 45_000).unwrap();
        assert_eq!(
            small.note,
            "20 of 200 epochs, 4500 of 45000 training images, H = 4 steps instead of 352: \
             180 cycles instead of 200"
        );
        let settings = settings(&small);
        assert_eq!(settings.plan.windows, whole.settings(45_000).unwrap().plan.windows);
    }

    #[test]
    fn milestones_and_stages_keep_their_share() {
        let step = experiment(&["method=sgd", "schedule.kind=step", "schedule.every=60 epochs"]);
        let small = scaled(&step, 0.1, 45_000).unwrap();
        assert_eq!(small.experiment.schedule.every, Some(Span::Share(0.3)));
        let rate = |settings: &Settings, step| (settings.plan.schedule.rate(step) * 1e6).round();
        let settings = settings(&small);
        // 30 % of 720 steps
        assert_eq!((rate(&settings, 215), rate(&settings, 216)), (1e5, 1e4));
        let swa = experiment(&["method=swa", "swa.start=160 epochs"]);
        let small = scaled(&swa, 0.1, 45_000).unwrap();
        assert_eq!(small.experiment.swa.start, Span::Share(0.8));
    }

    #[test]
    fn every_method_has_its_share_of_the_gradients() {
        // 200, 100 and 10 epochs of 45,000, 22,500 and 2,250 images: 352, 176 and 18 steps each.
        for (factor, gradients) in [(1.0, 200 * 352), (0.5, 100 * 176), (0.05, 10 * 18)] {
            for method in Method::ALL {
                let sets = [format!("method={}", method.name()), "budget=total".to_owned()];
                let experiment = experiment(&[&sets[0], &sets[1]]);
                let small = scaled(&experiment, factor, 45_000).unwrap();
                // Of two models, or two for each step.
                let twice = [Method::Online, Method::Hwa, Method::Fg, Method::Sam];
                let steps = if twice.contains(&method) { gradients / 2 } else { gradients };
                assert_eq!(settings(&small).plan.max_steps.get(), steps, "{method:?}");
            }
        }
    }

    #[test]
    fn whatever_is_left_can_be_trained() {
        // Five steps and less have no room for the stages of RePr: an error, no panic.
        assert!(scaled(&experiment(&["method=repr"]), 1e-9, 45_000).is_err());
        assert!(scaled(&experiment(&["method=sgd"]), 1e-9, 45_000).is_ok());
    }

    #[test]
    fn networks_graft_once_an_epoch_all_the_same() {
        let small = scaled(&experiment(&["method=fg"]), 0.1, 45_000).unwrap();
        // 4,500 images: 36 steps
        assert_eq!(settings(&small).plan.sync_period.get(), 36);
        // However an epoch is written, and not less than a step.
        for (period, expected) in [("352", 36), ("0.5%", 36), ("176", 18), ("1", 1)] {
            let whole = experiment(&["method=fg", &format!("hwa.sync_period={period}")]);
            let small = scaled(&whole, 0.1, 45_000).unwrap();
            assert_eq!(settings(&small).plan.sync_period.get(), expected, "{period}");
        }
    }

    #[test]
    fn a_budget_in_steps_is_as_many_epochs_as_one_in_epochs() {
        let parse = |text: &str| Experiment::parse(text, Path::new("e.toml"), &[]).unwrap();
        // 200 epochs of 352 steps: 20 of 36.
        let (steps, epochs) = (parse("schedule.steps = 70400\n"), parse("schedule.epochs = 200\n"));
        for factor in [0.1, 0.5, 1.0] {
            let budget = |whole: &Experiment| {
                settings(&scaled(whole, factor, 45_000).unwrap()).plan.max_steps.get()
            };
            assert_eq!(budget(&steps), budget(&epochs), "{factor}");
        }
        assert_eq!(settings(&scaled(&steps, 0.1, 45_000).unwrap()).plan.max_steps.get(), 720);
    }
}
