//! Methods as numbers, and what they refuse.

use std::path::Path;

use hwa_core::WindowSpec;

use super::*;

/// 640 images in batches of 128: five steps an epoch, 100 epochs.
fn settings(sets: &[&str]) -> Result<Settings, ExperimentError> {
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    let text = "[schedule]\nepochs = 100\n";
    Experiment::parse(text, Path::new("e.toml"), &sets)?.settings(640)
}

fn error(sets: &[&str]) -> String {
    settings(sets).unwrap_err().to_string()
}

fn windows(settings: &Settings) -> Vec<(Option<usize>, usize)> {
    let row = |w: &WindowSpec| (w.length.map(NonZeroUsize::get), w.first_cycle);
    settings.plan.windows.iter().map(row).collect()
}

#[test]
fn five_methods_are_numbers_for_one_loop() {
    for (method, models, expected) in [
        ("sgd", 1, vec![]),
        ("online", 2, vec![]),
        ("lawa", 1, vec![(Some(20), 1)]),
        ("hwa", 2, vec![(Some(20), 1)]),
        // stage II from step 400 of 500: the first sample is the end of cycle 81
        ("swa", 1, vec![(None, 81)]),
    ] {
        let settings = settings(&[&format!("method={method}")]).unwrap();
        assert_eq!(settings.plan.num_models.get(), models, "{method}");
        assert_eq!(windows(&settings), expected, "{method}");
        assert_eq!(settings.plan.max_steps.get(), 500);
        assert_eq!(settings.plan.sync_period.get(), 5);
    }
}

#[test]
fn parallel_mini_batches_and_one_shot_averaging_are_periods() {
    let every_step = settings(&["method=online", "hwa.sync_period=1"]).unwrap();
    assert_eq!(every_step.plan.num_cycles(), 500);
    let once = settings(&["method=online", "hwa.sync_period=100%"]).unwrap();
    assert_eq!(once.plan.num_cycles(), 1);
}

#[test]
fn a_total_budget_is_shared_out() {
    let total = settings(&["budget=total", "hwa.num_models=4"]).unwrap();
    assert_eq!(total.plan.max_steps.get(), 125);
    // The rate falls over the shorter budget: at its middle it is halved.
    let middle = total.plan.schedule.rate(62) + total.plan.schedule.rate(63);
    assert!((middle - 0.1).abs() < 1e-12);
    let sam = settings(&["budget=total", "method=sam"]).unwrap();
    assert_eq!(sam.plan.max_steps.get(), 250, "a step takes two gradients");
    let reason = error(&["budget=total", "hwa.num_models=501"]);
    assert!(reason.contains("must give each of 501 models a step, found 500"), "{reason}");
}

#[test]
fn windows_come_as_cycles_shares_and_lists() {
    let several = settings(&["hwa.window_length=[5, \"10%\", 20]"]).unwrap();
    assert_eq!(windows(&several), [(Some(5), 1), (Some(10), 1), (Some(20), 1)]);
    let twice = settings(&["hwa.window_length=[10, \"10%\"]"]).unwrap();
    assert_eq!(windows(&twice), [(Some(10), 1)]);
}

#[test]
fn the_baseline_falls_every_sixty_epochs() {
    let sets = ["method=sgd", "schedule.kind=step", "schedule.every=60 epochs"];
    let baseline = settings(&sets).unwrap();
    let rate = |step| (baseline.plan.schedule.rate(step) * 1e9).round() / 1e9;
    assert_eq!((rate(299), rate(300), rate(499)), (0.1, 0.01, 0.01));
}

#[test]
fn a_rate_that_falls_in_steps_says_when() {
    let message = error(&["schedule.kind=step"]);
    assert!(message.contains("`schedule.every` or `schedule.milestones`"), "{message}");
    settings(&["schedule.kind=step", "schedule.milestones=[\"50%\"]"]).unwrap();
}

#[test]
fn swa_has_a_rate_that_does_not_decay() {
    for kind in ["cosine", "linear", "step"] {
        let message = error(&["method=swa", &format!("schedule.kind={kind}")]);
        let expected = format!("`schedule.kind` is {kind}, with `method = \"swa\"` expected");
        assert!(message.starts_with(&expected), "{message}");
    }
    for kind in ["two-stage", "constant", "cyclical"] {
        settings(&["method=swa", &format!("schedule.kind={kind}")]).unwrap();
    }
    let by_default = settings(&["method=swa"]).unwrap();
    assert_eq!(by_default, settings(&["method=swa", "schedule.kind=two-stage"]).unwrap());
}

#[test]
fn the_rate_of_swas_second_stage_is_half_of_the_first_unless_it_is_told() {
    let last = |sets: &[&str]| settings(sets).unwrap().plan.schedule.rate(499);
    assert_eq!(last(&["method=swa"]), 0.05);
    assert_eq!(last(&["method=swa", "optimizer.rate=0.05"]), 0.025);
    assert_eq!(last(&["method=swa", "optimizer.rate=0.05", "swa.rate=0.05"]), 0.05);
    assert_eq!(last(&["schedule.kind=two-stage", "optimizer.rate=0.01"]), 0.005);
    let message = error(&["method=swa", "optimizer.rate=0.01", "swa.rate=0.05"]);
    let expected = "`swa.rate` must be at most the rate (0.01) that falls to it, found 0.05";
    assert!(message.contains(expected), "{message}");
    // It is written out, where it is used.
    let resolved =
        |text: &str| Experiment::parse(text, Path::new("e.toml"), &[]).unwrap().resolved().swa.rate;
    assert_eq!(resolved("method = \"swa\"\noptimizer.rate = 0.05\n"), Some(0.025));
    assert_eq!(resolved("method = \"swa\"\nschedule.kind = \"constant\"\n"), None);
}

#[test]
fn a_kind_that_is_left_out_changes_no_other_method() {
    for method in ["sgd", "online", "lawa", "hwa"] {
        let method = format!("method={method}");
        let written = settings(&[&method, "schedule.kind=cosine"]).unwrap();
        assert_eq!(settings(&[&method]).unwrap(), written);
    }
}

#[test]
fn impossible_values_name_their_key() {
    for (set, expected) in [
        ("name=../x", "`name` must be the name of a folder, found \"../x\""),
        ("name=...", "`name` must be the name of a folder, found \"...\""),
        ("name=\"a\\nb\"", "`name` must be the name of a folder, found \"a\\nb\""),
        ("hwa.num_models=5000", "`hwa.num_models` must be at most 4096, found 5000"),
        (
            "schedule.epochs=9007199254740992",
            "`schedule.epochs` must be at most 9007199254740992 steps, found 45035996273704960",
        ),
        ("schedule.warmup=500", "must be shorter than the budget of 500 steps, found 500"),
        (
            "optimizer.rate=0.0",
            "`optimizer.rate` makes no schedule: `rate` must be a finite number above 0, found 0",
        ),
        ("optimizer.momentum=1", "must be at least 0 and below 1, found 1"),
        ("schedule.floor=-1", "`schedule.floor` makes no schedule: `floor` must be at least"),
        ("hwa.sync_period=0", "`hwa.sync_period` must be at least one step, found 0 steps"),
        ("hwa.window_length=\"200%\"", "found \"200%\""),
        ("hwa.window_length=[]", "`hwa.window_length` must name at least one length"),
        ("hwa.window_stride=101", "must be at most the number of cycles (100), found 101"),
        ("hwa.window_stride=21", "must be at most the window length (20), found 21"),
        ("checkpoints.inner_cycles=[101]", "must lie between 1 and 100, found 101"),
        ("checkpoints.inner_every=3", "needs `checkpoints.inner_cycles`"),
        ("evaluate.tolerance=-1", "`evaluate.tolerance` must be from 0 to 1, found -1"),
    ] {
        let message = error(&[set]);
        assert!(message.contains(expected), "{set}: {message}");
    }
    let both = error(&["schedule.steps=9", "schedule.epochs=3"]);
    assert!(both.contains("`schedule.steps` and `schedule.epochs` exclude each other"));
    let steps = error(&["schedule.steps=9007199254740993"]);
    assert!(steps.contains("`schedule.steps` must be at most 9007199254740992 steps"), "{steps}");
    let late = error(&["method=swa", "swa.start=100%"]);
    assert!(late.contains("must leave a cycle for stage II"), "{late}");
    let curve = error(&["evaluate.test_curve=true", "checkpoints.outer_every=2"]);
    assert!(curve.contains("needs `checkpoints.outer_every = 1`"), "{curve}");
}

#[test]
fn methods_have_the_defaults_of_their_papers() {
    // 500 steps of five an epoch
    let of = |method: &str| settings(&[&format!("method={method}")]).unwrap();
    assert_eq!(of("sam").descent, Descent::SharpnessAware { rho: 0.05 });
    assert_eq!(of("sgd").descent, Descent::Plain);
    // A step that looks nowhere else is a plain one, and costs one gradient.
    let nowhere = settings(&["method=sam", "optimizer.rho=0", "budget=total"]).unwrap();
    assert_eq!((nowhere.descent, nowhere.plan.max_steps.get()), (Descent::Plain, 500));
    let inside = settings(&["optimizer.rho=0.1"]).unwrap();
    assert_eq!(inside.descent, Descent::SharpnessAware { rho: 0.1 });
    assert_eq!((of("fg").candidates, of("fg").init), (Candidates::Models, Init::Independent));
    assert_eq!((of("hwa").candidates, of("hwa").init), (Candidates::Averages, Init::Shared));
    // Fifteen parts of 500 are 34 steps: seven epochs, in which a cosine ends with a cycle.
    let sgdr = of("sgdr").plan.schedule;
    let rate = |step| (sgdr.rate(step) * 1e3).round();
    assert_eq!((rate(0), rate(34), rate(35), rate(104), rate(105)), (100., 0., 100., 0., 100.));
    // The fourth has 255 of its 280 steps, and ends with them.
    assert_eq!((rate(245), rate(499)), (100., 0.));
    let sets = ["method=repr".to_owned()];
    let text = "[schedule]\nepochs = 200\n";
    let repr = Experiment::parse(text, Path::new("e.toml"), &sets).unwrap();
    let stages = repr.stages(&repr.lengths(640).unwrap()).unwrap();
    let steps: Vec<(u64, u64)> = stages.iter().map(|s| (s.drop, s.revive)).collect();
    assert_eq!(steps, [(100, 150), (250, 300), (400, 450)], "20 and 10 of 200 epochs");
}

#[test]
fn every_method_that_can_be_written_is_in_the_list_of_all() {
    let (_, told) = Experiment::mistake("method = \"none\"\n").unwrap();
    let names = Method::ALL.map(Method::name).join(", ");
    assert!(told.contains(&format!("expected one of {names}, found")), "{told}");
}

#[test]
fn the_momentum_of_one_model_is_kept() {
    let of = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let text = "[hwa]\nmomentum_at_sync = \"reset\"\n";
        Experiment::parse(text, Path::new("e.toml"), &sets).unwrap().momentum_at_sync()
    };
    assert_eq!(of(&["method=hwa"]), MomentumAtSync::Reset);
    assert_eq!(of(&["method=hwa", "hwa.num_models=1"]), MomentumAtSync::Keep);
    for method in ["sgd", "swa", "lawa", "sam", "sgdr"] {
        assert_eq!(of(&[&format!("method={method}")]), MomentumAtSync::Keep, "{method}");
    }
}

#[test]
fn what_a_method_cannot_do_is_an_error() {
    for (sets, expected) in [
        (["method=fg", "hwa.num_models=1"], "`hwa.num_models` must be at least 2"),
        (["method=repr", "repr.times=0"], "`repr.times` must be at least 1"),
        (["method=repr", "optimizer.rho=0.05"], "`optimizer.rho` cannot be set"),
        (["method=repr", "repr.share=0.6"], "`repr.share` must be from 0 to 0.5"),
        (["method=ema", "ema.decay=1"], "`ema.decay` must be at least 0 and below 1"),
        (["method=lookahead", "lookahead.alpha=0"], "`lookahead.alpha` must be above 0"),
        (
            ["method=lookahead", "lookahead.period=501"],
            "`lookahead.period` must be at most the budget of 500 steps, found 501",
        ),
        (["method=sgdr", "schedule.kind=cosine"], "expected restarts"),
        (["method=sgdr", "schedule.period=100%"], "`schedule.period` must be below"),
        (
            ["method=sgdr", "hwa.sync_period=100%"],
            "`hwa.sync_period` must leave room for a restart",
        ),
        (
            ["schedule.floor=0.2", "method=sgd"],
            "`schedule.floor` makes no schedule: `floor` must be at",
        ),
        (["method=swa", "swa.floor=0.06"], "the rate (0.05) that falls to it, found 0.06"),
        (["method=sam", "optimizer.rho=-1"], "must be a finite number of at least 0, found -1"),
    ] {
        let message = error(&sets);
        assert!(message.contains(expected), "{sets:?}: {message}");
    }
    let sets: Vec<String> = vec!["method=repr".into(), "repr.times=7".into()];
    let repr = Experiment::parse("", Path::new("e.toml"), &sets).unwrap();
    let Err(error) = repr.technique(640) else { panic!("it does not fit") };
    assert!(error.to_string().contains("must fit into the budget"), "{error}");
    // Each stage is remembered: as many as there could be would take all memory.
    let text = "method = \"repr\"\nschedule.steps = 9007199254740992\n\
                [repr]\nfull = 1\npruned = 1\ntimes = 4000000000000000\n";
    let repr = Experiment::parse(text, Path::new("e.toml"), &[]).unwrap();
    let Err(error) = repr.technique(640) else { panic!("too many") };
    assert!(error.to_string().contains("`repr.times` must be at most 100000"), "{error}");
}
