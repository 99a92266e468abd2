//! Which keys a method has a use for.

use std::collections::{BTreeMap, BTreeSet};

use crate::descent::Descent;
use crate::experiment::{Experiment, Method, ScheduleKind, ScheduleTable, Swa};
use crate::parse::flat;

impl Experiment {
    /// The experiment with the values of another for all keys that its method has no use for:
    /// those of experiments that train the same are then equal.
    pub fn with_unused_of(&self, other: &Self) -> Self {
        let mut same = self.clone();
        let Self { ema, lookahead, fg, repr, swa, hwa, schedule, .. } = other.clone();
        if self.method != Method::Ema {
            same.ema = ema;
        }
        if self.method != Method::Lookahead {
            same.lookahead = lookahead;
        }
        if self.method != Method::Fg {
            same.fg = fg;
        }
        if self.method != Method::Repr {
            same.repr = repr;
        }
        if self.kind() != ScheduleKind::TwoStage {
            // With another schedule SWA's samples begin there all the same.
            let start = if self.method == Method::Swa { self.swa.start } else { swa.start };
            same.swa = Swa { start, ..swa };
        }
        same.take_unused_of_schedule(schedule);
        if !self.method.has_window() {
            same.hwa.window_length = hwa.window_length;
            same.hwa.window_stride = hwa.window_stride;
        }
        if !self.method.has_several_models() {
            same.hwa.num_models = hwa.num_models;
        }
        if self.num_models().get() == 1 {
            same.hwa.init = hwa.init;
            same.hwa.on_lost_replica = hwa.on_lost_replica;
        }
        // One model alone keeps its momentum, and grafting never touches it.
        if self.num_models().get() == 1 || self.method == Method::Fg {
            same.hwa.momentum_at_sync = hwa.momentum_at_sync;
        }
        same
    }

    /// Takes over what its own kind of schedule has no use for.
    fn take_unused_of_schedule(&mut self, other: ScheduleTable) {
        use ScheduleKind::{Constant, Cosine, Cyclical, Linear, Restarts, Step, TwoStage};
        let kind = self.kind();
        let schedule = &mut self.schedule;
        if kind != Step {
            schedule.factor = other.factor;
            schedule.every = other.every;
            schedule.milestones = other.milestones;
        }
        if !matches!(kind, Cyclical | Restarts) {
            schedule.period = other.period;
        }
        if kind != Restarts {
            schedule.lengthening = other.lengthening;
        }
        match kind {
            Cosine | Linear | Cyclical | Restarts => {}
            Step | Constant | TwoStage => schedule.floor = other.floor,
        }
    }

    /// Keys that are not as by default, although the method has no use for them.
    ///
    /// ```
    /// let sets = ["method=sgd".to_owned(), "hwa.num_models=4".to_owned()];
    /// let experiment = hwa_train::Experiment::parse("", "mine.toml".as_ref(), &sets)?;
    /// assert_eq!(experiment.keys_without_use(), ["hwa.num_models"]);
    /// # Ok::<_, hwa_train::ExperimentError>(())
    /// ```
    pub fn keys_without_use(&self) -> Vec<String> {
        differences(&self.with_unused_of(&Self::default()).resolved(), &self.resolved())
    }

    /// What is special about the method, and about its schedule if that is not the usual one, as
    /// keys with their values; nothing, if it has no keys of its own.
    pub fn method_keys(&self) -> Vec<String> {
        let kind = self.kind();
        let of_kind: &[&str] = match kind {
            ScheduleKind::Restarts => &["schedule.period", "schedule.lengthening"],
            ScheduleKind::Cyclical => &["schedule.period", "schedule.floor"],
            ScheduleKind::Step => &["schedule.every", "schedule.milestones", "schedule.factor"],
            ScheduleKind::TwoStage => &["swa.start", "swa.rate", "swa.floor", "swa.period"],
            ScheduleKind::Cosine | ScheduleKind::Linear | ScheduleKind::Constant => &[],
        };
        let several = self.num_models().get() > 1;
        let shown = |key: &str| match key {
            "schedule.kind" => kind != self.method.usual_kind(),
            "hwa.init" => several && self.init() != self.method.usual_init(),
            key => {
                let own = self.method.table();
                own.is_some_and(|own| key.split_once('.').is_some_and(|(table, _)| table == own))
                    || of_kind.contains(&key)
            }
        };
        let mut keys = keys_of(&self.resolved());
        keys.retain(|key, _| shown(key));
        if let Descent::SharpnessAware { rho } = self.descent() {
            keys.insert("optimizer.rho".to_owned(), rho.to_string());
        }
        keys.into_iter().map(|(key, value)| format!("{key} = {value}")).collect()
    }
}

/// Every key with its value.
fn keys_of(experiment: &Experiment) -> BTreeMap<String, String> {
    flat(&experiment.to_toml().unwrap_or_default())
}

/// All keys whose values differ.
fn differences(one: &Experiment, other: &Experiment) -> Vec<String> {
    let (one, other) = (keys_of(one), keys_of(other));
    let all: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    all.into_iter().filter(|key| one.get(*key) != other.get(*key)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_a_method_has_no_use_for_is_as_in_another() {
        let of = |method: &str, text: &str| {
            let sets = [format!("method={method}")];
            Experiment::parse(text, Path::new("e.toml"), &sets).unwrap()
        };
        let others = "[ema]\ndecay = 0.5\n[lookahead]\nalpha = 0.1\n[fg]\na = 0.1\n\
                      [repr]\ntimes = 1\n[swa]\nrate = 0.01\n\
                      [hwa]\nnum_models = 3\nwindow_length = 7\nmomentum_at_sync = \"reset\"\n";
        for (method, used) in [
            ("sgd", &[][..]),
            ("sam", &[]),
            ("sgdr", &[]),
            ("ema", &["ema.decay"]),
            ("lookahead", &["lookahead.alpha"]),
            ("fg", &["fg.a", "hwa.num_models"]),
            ("repr", &["repr.times"]),
            ("swa", &["swa.rate"]),
            ("lawa", &["hwa.window_length"]),
            ("online", &["hwa.momentum_at_sync", "hwa.num_models"]),
            ("hwa", &["hwa.momentum_at_sync", "hwa.num_models", "hwa.window_length"]),
        ] {
            let (mine, other) = (of(method, ""), of(method, others));
            assert_eq!(differences(&mine.with_unused_of(&other), &other), used, "{method}");
        }
        // Each kind of schedule has keys of its own, and one model is alone.
        let alone = "[hwa]\ninit = \"independent\"\non_lost_replica = \"continue\"\n";
        let keys = "factor = 0.5\nevery = 7\nmilestones = [3]\nperiod = 9\nlengthening = 3\n\
                    floor = 0.01\n";
        for (kind, used) in [
            ("cosine", &["schedule.floor"][..]),
            ("linear", &["schedule.floor"]),
            ("step", &["schedule.every", "schedule.factor", "schedule.milestones"]),
            ("constant", &[]),
            ("cyclical", &["schedule.floor", "schedule.period"]),
            ("restarts", &["schedule.floor", "schedule.lengthening", "schedule.period"]),
            ("two-stage", &[]),
        ] {
            let mine = of("sgd", &format!("schedule.kind = {kind:?}\n"));
            let other = of("sgd", &format!("{alone}[schedule]\nkind = {kind:?}\n{keys}"));
            assert_eq!(differences(&mine.with_unused_of(&other), &other), used, "{kind}");
        }
        // What is kept of one model alone is known.
        let (mine, other) = (of("hwa", "hwa.num_models = 1\n"), of("hwa", others));
        let used = ["hwa.num_models", "hwa.window_length"];
        assert_eq!(differences(&mine.with_unused_of(&other), &other), used);
        let constant = "schedule.kind = \"constant\"\nswa.start = \"50%\"\n";
        let (mine, other) =
            (of("swa", constant), of("swa", "schedule.kind = \"constant\"\nswa.rate = 0.01\n"));
        assert_eq!(differences(&mine.with_unused_of(&other), &other), ["swa.start"]);
        // It is its schedule that uses it.
        let two_stages = "[schedule]\nkind = \"two-stage\"\n";
        let (mine, other) = (of("sgd", two_stages), of("sgd", others));
        assert_eq!(mine.with_unused_of(&other).swa, mine.swa);
    }

    #[test]
    fn what_decides_a_run_is_shown() {
        let keys =
            |text: &str| Experiment::parse(text, Path::new("e.toml"), &[]).unwrap().method_keys();
        assert!(keys("").is_empty());
        assert_eq!(keys("method = \"swa\"\n"), ["swa.rate = 0.05", "swa.start = \"80%\""]);
        assert_eq!(keys("method = \"sam\"\n"), ["optimizer.rho = 0.05"]);
        // A schedule that is not that of the method, and models that do not start alike.
        let expected = ["schedule.kind = \"two-stage\"", "swa.rate = 0.05", "swa.start = \"80%\""];
        assert_eq!(keys("schedule.kind = \"two-stage\"\n"), expected);
        assert_eq!(keys("hwa.init = \"independent\"\n"), ["hwa.init = \"independent\""]);
        assert!(keys("method = \"sgd\"\nhwa.init = \"independent\"\n").is_empty());
        let fg = keys("method = \"fg\"\nhwa.init = \"shared\"\n");
        assert_eq!(fg, ["fg.a = 0.4", "fg.c = 500.0", "hwa.init = \"shared\""]);
    }
}
