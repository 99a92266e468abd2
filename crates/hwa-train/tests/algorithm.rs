//! Algorithms 1 and 2 against hand-written loops.

#![allow(clippy::unwrap_used, clippy::panic)] // it is a test

mod toy;

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::Path;
use std::sync::Mutex;

use hwa_core::{Decay, Schedule, WindowSpec};
use hwa_data::{Batch, Position, TrainingBatches};
use hwa_train::{
    Averaging, Event, Every, Init, MomentumAtSync, Outcome, Replica, Settings, Step, Technique,
};
use toy::{
    Fault, Recorder, SIZE, Toy, bits, images, outer, settings, timeless_events, train, train_by,
    train_with, transform,
};

fn nonzero(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

fn steps(n: u64) -> NonZeroU64 {
    NonZeroU64::new(n).unwrap()
}

fn with(models: usize, sync_period: u64) -> Settings {
    let mut settings = settings();
    settings.plan.num_models = nonzero(models);
    settings.plan.sync_period = steps(sync_period);
    settings
}

fn batches(settings: &Settings, replica: u32) -> impl Iterator<Item = Batch> {
    let (batch, seed) = (settings.batch, settings.seed);
    let from = Position { seed, replica, step: 0 };
    TrainingBatches::new(images(0), transform(), batch, from).unwrap().map(Result::unwrap)
}

/// Step `step` of model `replica`.
fn at(settings: &Settings, replica: u32, step: u64) -> Step {
    let position = Position { seed: settings.seed, replica, step };
    Step { rate: settings.plan.schedule.rate(step), position }
}

fn to_bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Algorithm 1, written out: every model one after the other, averaged by hand.
fn sequential(settings: &Settings, policy: MomentumAtSync) -> Vec<Vec<f32>> {
    let models = settings.plan.num_models.get();
    let init = |k| if settings.init == Init::Shared { 0 } else { k as u32 };
    let mut toys: Vec<Toy> = (0..models).map(|k| Toy::new(init(k), Some(Fault::Bent))).collect();
    let mut data: Vec<_> = (0..models).map(|k| batches(settings, k as u32)).collect();
    let mut outers = Vec::new();
    for i in 0..settings.plan.max_steps.get() {
        for (k, (toy, data)) in toys.iter_mut().zip(&mut data).enumerate() {
            toy.step(&data.next().unwrap(), at(settings, k as u32, i)).unwrap();
        }
        let last = i + 1 == settings.plan.max_steps.get();
        if last || (i + 1) % settings.plan.sync_period.get() == 0 {
            let points: Vec<Vec<f32>> = toys.iter().map(|t| t.point().to_vec()).collect();
            let mean = mean_by_hand(&points);
            let momenta: Vec<Vec<f32>> = toys.iter().map(momentum_of).collect();
            let momentum = mean_by_hand(&momenta);
            for toy in &mut toys {
                toy.load(&named(&mean)).unwrap();
                match policy {
                    MomentumAtSync::Keep => {}
                    MomentumAtSync::Average => toy.load_momentum(&named(&momentum)).unwrap(),
                    MomentumAtSync::Reset => toy.load_momentum(&named(&[0.0; SIZE])).unwrap(),
                }
            }
            outers.push(mean);
        }
    }
    outers
}

fn mean_by_hand(points: &[Vec<f32>]) -> Vec<f32> {
    let sum =
        |i: usize| points[1..].iter().fold(f64::from(points[0][i]), |s, p| s + f64::from(p[i]));
    (0..points[0].len()).map(|i| (sum(i) / points.len() as f64) as f32).collect()
}

fn momentum_of(toy: &Toy) -> Vec<f32> {
    toy.momentum().unwrap().get("w").unwrap().as_f32().unwrap().to_vec()
}

fn named(w: &[f32]) -> hwa_core::Weights {
    let mut weights = hwa_core::Weights::new();
    let tensor = hwa_core::Tensor::parameter(vec![w.len()], w.to_vec()).unwrap();
    weights.insert("w", tensor).unwrap();
    weights
}

fn assert_outers(run: &Path, expected: &[Vec<f32>]) {
    for (i, point) in expected.iter().enumerate() {
        assert_eq!(outer(run, i + 1), to_bits(point), "cycle {}", i + 1);
    }
    assert!(!run.join(format!("checkpoints/outer-{:06}.safetensors", expected.len() + 1)).exists());
}

#[test]
fn threads_equal_a_sequential_run_bit_for_bit() {
    // T = 24 is not a multiple of H = 5: the last of the five cycles has four steps.
    for (models, period) in [(2, 5), (3, 5), (4, 1), (2, 24), (2, 99)] {
        for init in [Init::Shared, Init::Independent] {
            let mut settings = with(models, period);
            settings.init = init;
            let folder = tempfile::tempdir().unwrap();
            train_bent(folder.path(), &settings, MomentumAtSync::Keep);
            assert_outers(folder.path(), &sequential(&settings, MomentumAtSync::Keep));
        }
    }
}

fn train_bent(path: &Path, settings: &Settings, momentum: MomentumAtSync) {
    let technique = |_| Box::new(Averaging { momentum }) as Box<dyn Technique>;
    train_by(path, settings, &technique, &|_| Some(Fault::Bent), &Mutex::default()).unwrap();
}

#[test]
fn momentum_is_kept_averaged_or_reset() {
    let mut last = Vec::new();
    for momentum in [MomentumAtSync::Keep, MomentumAtSync::Average, MomentumAtSync::Reset] {
        let settings = with(3, 5);
        let folder = tempfile::tempdir().unwrap();
        train_bent(folder.path(), &settings, momentum);
        assert_outers(folder.path(), &sequential(&settings, momentum));
        last.push(outer(folder.path(), 5));
    }
    // On a loss that is not quadratic the three policies end in three places.
    assert!(last[0] != last[1] && last[1] != last[2] && last[0] != last[2]);
}

#[test]
fn one_model_and_a_window_of_one_is_plain_sgd_bit_for_bit() {
    let mut settings = with(1, 5);
    settings.plan.windows = vec![WindowSpec::sliding(nonzero(1))];
    let folder = tempfile::tempdir().unwrap();
    let Outcome::Finished(summary) = train(folder.path(), &settings) else {
        panic!("not interrupted")
    };
    let (chosen, mut compared) = (summary.chosen.unwrap().cycle, false);
    let mut toy = Toy::new(0, None);
    for (i, batch) in batches(&settings, 0).take(24).enumerate() {
        toy.step(&batch, at(&settings, 0, i as u64)).unwrap();
        let cycle = match i + 1 {
            24 => 5,
            n if n % 5 == 0 => n / 5,
            _ => continue,
        };
        assert_eq!(outer(folder.path(), cycle), to_bits(toy.point()));
        if cycle == chosen {
            let best = bits(&folder.path().join("best.safetensors"), "w");
            assert_eq!(best, to_bits(toy.point()), "the window of one changes nothing");
            compared = true;
        }
    }
    assert!(compared);
}

/// H = 1 against one model that steps on the union of all models' batches.
fn difference_to_large_batch(momentum: MomentumAtSync) -> f32 {
    let mut settings = with(2, 1);
    // Full epochs only: a union of batches of different sizes would weigh them differently.
    settings.plan.max_steps = steps(20);
    let folder = tempfile::tempdir().unwrap();
    let technique = |_| Box::new(Averaging { momentum }) as Box<dyn Technique>;
    train_by(folder.path(), &settings, &technique, &|_| None, &Mutex::default()).unwrap();
    let mut toy = Toy::new(0, None);
    let (mut first, mut second) = (batches(&settings, 0), batches(&settings, 1));
    let mut worst = 0.0f32;
    for i in 0..20 {
        let mut union = first.next().unwrap();
        let other = second.next().unwrap();
        union.images.extend(&other.images);
        union.labels.extend(&other.labels);
        toy.step(&union, at(&settings, 0, i)).unwrap();
        let found = outer(folder.path(), i as usize + 1);
        for (a, b) in found.iter().map(|x| f32::from_bits(*x)).zip(toy.point()) {
            worst = worst.max((a - b).abs());
        }
    }
    worst
}

#[test]
fn averaging_every_step_is_the_large_batch_step_unless_momentum_is_reset() {
    assert!(difference_to_large_batch(MomentumAtSync::Keep) < 1e-5);
    assert!(difference_to_large_batch(MomentumAtSync::Average) < 1e-5);
    assert!(difference_to_large_batch(MomentumAtSync::Reset) > 1e-2);
}

#[test]
fn the_chosen_weights_are_the_mean_of_the_chosen_window() {
    let folder = tempfile::tempdir().unwrap();
    let Outcome::Finished(summary) = train(folder.path(), &with(2, 5)) else {
        panic!("not interrupted")
    };
    let chosen = summary.chosen.unwrap();
    let length = summary.chosen_length.unwrap();
    let members = (chosen.cycle + 1).saturating_sub(length).max(1)..=chosen.cycle;
    let points: Vec<Vec<f32>> = members
        .map(|c| outer(folder.path(), c).into_iter().map(f32::from_bits).collect())
        .collect();
    let best = bits(&folder.path().join("best.safetensors"), "w");
    assert_eq!(best, to_bits(&mean_by_hand(&points)));
}

#[test]
fn judging_leaves_training_bitwise_untouched() {
    let run = |every| {
        let mut settings = with(2, 5);
        settings.evaluate.every = every;
        settings.evaluate.inner = every != Every::Cycles(nonzero(100));
        let folder = tempfile::tempdir().unwrap();
        train(folder.path(), &settings);
        (1..=5).map(|c| outer(folder.path(), c)).collect::<Vec<_>>()
    };
    let often = run(Every::Cycles(nonzero(1)));
    assert_eq!(often, run(Every::Cycles(nonzero(100))));
    assert_eq!(often, run(Every::Auto));
}

#[test]
fn the_first_windows_weights_are_evaluated_on_training_images_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = with(2, 5);
    settings.evaluate.train_images = NonZeroUsize::new(1000);
    train(folder.path(), &settings);
    let judged: Vec<_> =
        timeless_events(folder.path()).into_iter().filter(|e| e["event"] == "judged").collect();
    assert_eq!(judged.len(), 5);
    let data: Vec<f32> = batches(&self::settings(), 0).take(5).flat_map(|b| b.images).collect();
    for event in judged {
        // The first window holds one cycle: half the mean squared distance to its outer weights.
        let cycle = event["cycle"].as_u64().unwrap() as usize;
        let weights: Vec<f32> =
            outer(folder.path(), cycle).into_iter().map(f32::from_bits).collect();
        let distance = |image: &[f32]| -> f64 {
            image.iter().zip(&weights).map(|(x, w)| f64::from(x - w).powi(2)).sum()
        };
        let images = data.chunks(weights.len());
        let count = images.len();
        let expected = images.map(distance).sum::<f64>() / 2.0 / count as f64;
        assert_eq!(event["train"]["images"], count);
        let found = event["train"]["loss"].as_f64().unwrap();
        assert!((found - expected).abs() < 1e-5 * expected, "{found} {expected}");
    }
    let without = tempfile::tempdir().unwrap();
    train(without.path(), &with(2, 5));
    assert!(timeless_events(without.path()).iter().all(|e| e.get("train").is_none()));
    assert_eq!(outer(folder.path(), 5), outer(without.path(), 5));
}

#[test]
fn statistics_of_the_chosen_weights_are_re_estimated_on_all_training_data() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &with(2, 5));
    let found = bits(&folder.path().join("best.safetensors"), "bn.running_mean")[0];
    let all: Vec<f32> = batches(&settings(), 0).take(5).flat_map(|b| b.images).collect();
    let expected = all.iter().map(|x| f64::from(*x)).sum::<f64>() / all.len() as f64;
    assert!((f64::from(f32::from_bits(found)) - expected).abs() < 1e-6);
}

#[test]
fn training_stops_one_cycle_after_the_verdict() {
    let mut settings = with(2, 2);
    settings.plan.max_steps = steps(200);
    settings.plan.schedule = Schedule::new(0.1, Decay::Cosine { floor: 0.0 }, 200).unwrap();
    settings.patience = Some(6);
    let folder = tempfile::tempdir().unwrap();
    let Outcome::Finished(summary) = train(folder.path(), &settings) else {
        panic!("not interrupted")
    };
    // The verdict on cycle best + 6 is heard at the end of cycle best + 7, which is judged too
    // and may not be better than the best.
    let best = summary.chosen.unwrap().cycle;
    assert_eq!(summary.last_cycle, best + 7);
    assert!(summary.last_cycle < 100);
    let events = timeless_events(folder.path());
    assert!(events.iter().any(|e| e["event"] == "stopped_early"));
}

#[test]
fn cycles_that_nobody_looked_at_do_not_use_up_patience() {
    let mut settings = with(2, 1);
    settings.patience = Some(3);
    settings.evaluate.every = Every::Cycles(nonzero(8));
    let folder = tempfile::tempdir().unwrap();
    let Outcome::Finished(summary) = train(folder.path(), &settings) else {
        panic!("not interrupted")
    };
    // Looks at cycles 8, 16 and 24: it cannot stop between two of them.
    assert!([17, 24].contains(&summary.last_cycle), "{}", summary.last_cycle);
}

#[test]
fn a_method_without_windows_chooses_among_outer_weights() {
    let mut settings = with(1, 5);
    settings.plan.windows.clear();
    let folder = tempfile::tempdir().unwrap();
    let Outcome::Finished(summary) = train(folder.path(), &settings) else {
        panic!("not interrupted")
    };
    let chosen = summary.chosen.unwrap();
    assert_eq!(chosen.window, None);
    assert!(summary.test.hwa.is_none() && summary.test.outer.is_none());
    assert_eq!((summary.test.inner.len(), summary.test.chosen.is_some()), (1, true));
    let best = bits(&folder.path().join("best.safetensors"), "w");
    assert_eq!(best, outer(folder.path(), chosen.cycle));
}

#[test]
fn inner_weights_are_saved_on_request() {
    let mut settings = with(2, 5);
    settings.checkpoints.inner_cycles = vec![2];
    settings.checkpoints.inner_every = Some(steps(2));
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &settings);
    let mut found: Vec<String> = std::fs::read_dir(folder.path().join("checkpoints"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("inner"))
        .collect();
    found.sort();
    // Cycle 2 is steps 6 to 10: multiples of 2, and the end.
    let expected: Vec<String> = (0..2)
        .flat_map(|k| [6, 8, 10].map(|s| format!("inner-000002-{k}-{s:08}.safetensors")))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn the_first_event_says_by_which_format_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &with(2, 5));
    let first = &timeless_events(folder.path())[0];
    assert_eq!((&first["event"], &first["format"]), (&"started".into(), &1.into()));
}

#[test]
fn what_a_run_will_take_on_disk_is_known_before_it_begins() {
    let mut settings = with(2, 5);
    settings.checkpoints.inner_cycles = vec![2];
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &settings);
    // A toy has 4 parameters (16 bytes), momentum as large, a statistic (4) and a counter (8).
    // Outer weights of 5 cycles, inner weights of 2 models, 3 states of 2 models, one best.
    let expected = serde_json::json!({
        "outer": 5 * 16, "inner": 2 * 16, "states": 3 * 2 * (28 + 16), "best": 28,
    });
    assert_eq!(timeless_events(folder.path())[0]["disk"], expected);
}

#[test]
fn outer_weights_that_nothing_needs_are_removed() {
    let mut settings = with(2, 1);
    settings.checkpoints.outer_every = nonzero(10);
    let folder = tempfile::tempdir().unwrap();
    train(folder.path(), &settings);
    let store = hwa_store::CheckpointStore::new(folder.path().join("checkpoints"));
    let kept = store.outer_cycles().unwrap();
    assert_eq!(kept, [10, 20, 24]); // multiples of 10, and the last
}

#[test]
fn every_window_is_measured_where_validation_chooses_for_it() {
    let mut settings = with(2, 5);
    settings.evaluate.test_curve = true;
    let folder = tempfile::tempdir().unwrap();
    let Outcome::Finished(summary) = train(folder.path(), &settings) else {
        panic!("not interrupted")
    };
    assert_eq!(summary.windows.len(), settings.plan.windows.len());
    let judged: Vec<_> = timeless_events(folder.path())
        .into_iter()
        .filter(|event| event["event"] == "judged")
        .collect();
    let curve = summary.best_on_test.unwrap().curve;
    for (index, window) in summary.windows.iter().enumerate() {
        // The first of its best cycles, by what the judge has written down.
        let of = |event: &serde_json::Value| {
            let hwa = event["hwa"].as_array().unwrap();
            let mine = hwa.iter().find(|hwa| hwa["window"] == index)?["evaluation"].clone();
            Some((mine["top1"].as_f64()?, -mine["loss"].as_f64()?, event["cycle"].as_u64()?))
        };
        let scores = judged.iter().filter_map(of);
        let best = scores.reduce(|a, b| if (b.0, b.1) > (a.0, a.1) { b } else { a }).unwrap();
        assert_eq!((window.cycle as u64, window.validation.top1), (best.2, best.0));
        let point = curve.iter().find(|point| (point.0, point.1) == (window.cycle, Some(index)));
        assert_eq!(window.test.top1, point.unwrap().2);
    }
    // The chosen weights are the best of one of them.
    let chosen = summary.chosen.unwrap();
    let its = summary.windows[chosen.window.unwrap()];
    let test = summary.test.chosen.unwrap();
    assert_eq!((its.cycle, its.test.top1, its.test.loss), (chosen.cycle, test.top1, test.loss));
}

#[test]
fn the_averages_of_a_run_with_windows_are_worth_what_they_are_without() {
    let result = |settings: &Settings| {
        let folder = tempfile::tempdir().unwrap();
        let Outcome::Finished(summary) = train(folder.path(), settings) else {
            panic!("not interrupted")
        };
        summary
    };
    let settings = with(2, 5);
    let both = result(&settings);
    let mut alone = settings.clone();
    alone.plan.windows.clear();
    let alone = result(&alone);
    let online = both.online.unwrap();
    assert_eq!(online.cycle, alone.chosen.unwrap().cycle);
    let levels = [(online.validation, alone.validation), (online.test, alone.test)];
    for (found, levels) in levels {
        let expected = levels.chosen.unwrap();
        assert_eq!(
            (found.top1, found.top5, found.loss),
            (expected.top1, expected.top5, expected.loss)
        );
    }
    assert_eq!(alone.online, None, "that is the result itself");
    assert_eq!(result(&with(1, 5)).online, None, "one model has no average");
}

#[test]
fn windows_whose_members_may_be_gone_are_not_measured_again() {
    let mut settings = with(2, 5);
    settings.checkpoints.outer_every = nonzero(10);
    let folder = tempfile::tempdir().unwrap();
    let Outcome::Finished(summary) = train(folder.path(), &settings) else {
        panic!("not interrupted")
    };
    assert!(settings.plan.windows.len() > 1 && summary.windows.is_empty());
    assert_eq!(summary.online, None);
}

#[test]
fn the_test_curve_is_drawn_after_the_choice_and_under_its_own_name() {
    let mut settings = with(2, 5);
    settings.evaluate.test_curve = true;
    let folder = tempfile::tempdir().unwrap();
    let recorder: Mutex<Recorder> = Mutex::default();
    let outcome = train_with(folder.path(), &settings, &|_| None, &recorder).unwrap();
    let Outcome::Finished(summary) = outcome else { panic!("not interrupted") };
    let best = summary.best_on_test.unwrap();
    assert_eq!(best.curve.len(), 2 * 5); // two windows, five cycles
    // It takes its time: the progress is shown, and not recorded.
    let shown: Vec<(usize, usize)> = recorder
        .into_inner()
        .unwrap()
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Measured { done, total } => Some((*done, *total)),
            _ => None,
        })
        .collect();
    assert_eq!(shown, [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]);
    assert!(timeless_events(folder.path()).iter().all(|event| event["event"] != "measured"));
    let highest = best.curve.iter().map(|point| point.2).fold(0.0, f64::max);
    assert_eq!(best.evaluation.top1, highest);
}
