//! What training does beside gradients: steps, rates and statistics estimated again.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use hwa_core::{Decay, Schedule};
use hwa_data::{Batch, DataError};
use hwa_nn::{Sgd, SgdConfig, names};
use hwa_train::Replica;
use serde::Deserialize;

use crate::bounds::{LAST_PLACES, relative_error};
use crate::noise::{IMAGES, batch, noise_f32, values};
use crate::{ByName, Filled, read, tensor};

#[derive(Module, Debug)]
struct TwoTensors {
    a: Param<Tensor<2>>,
    b: Param<Tensor<1>>,
}

#[test]
fn sgd_follows_pytorchs_trace() {
    #[derive(Deserialize)]
    struct Golden {
        trace: Vec<Step>,
    }
    #[derive(Deserialize)]
    struct Step {
        weights: ByName<Vec<f64>>,
        momentum: ByName<Vec<f64>>,
    }
    let golden: Golden = read("sgd.json");
    let device = Device::flex().autodiff();
    let mut module = TwoTensors {
        a: Param::from_tensor(tensor(noise_f32(0, 6, 1.0, 0.0), [3, 2], &device)),
        b: Param::from_tensor(tensor(noise_f32(1, 5, 1.0, 0.0), [5], &device)),
    };
    let mut sgd = Sgd::new(SgdConfig { momentum: 0.9, weight_decay: 5e-4 });
    for (number, expected) in golden.trace.iter().enumerate() {
        let stream = 100 + 10 * number as u64;
        // The gradient of sum(a * g) is g.
        let a = module.a.val() * tensor(noise_f32(stream, 6, 1.0, 0.0), [3, 2], &device);
        let b = module.b.val() * tensor(noise_f32(stream + 1, 5, 1.0, 0.0), [5], &device);
        let gradients = (a.sum() + b.sum()).backward();
        module = sgd.step(module, gradients, 0.1 / (number + 1) as f64);
        let weights = names::export(&module).unwrap();
        let momentum = sgd.momentum(&module).unwrap();
        for name in ["a", "b"] {
            for (found, expected) in
                [(&weights, &expected.weights), (&momentum, &expected.momentum)]
            {
                let error = relative_error(values(found, name).iter().copied(), &expected[name]);
                assert!(error < 4.0 * LAST_PLACES, "{name} after step {number}: {error:e}");
            }
        }
    }
}

#[test]
fn the_cosine_schedule_is_pytorchs() {
    #[derive(Deserialize)]
    struct Golden {
        peak: f64,
        floor: f64,
        rates: Vec<f64>,
    }
    let golden: Golden = read("cosine.json");
    let decay = Decay::Cosine { floor: golden.floor };
    let schedule = Schedule::new(golden.peak, decay, golden.rates.len() as u64).unwrap();
    for (step, expected) in golden.rates.iter().enumerate() {
        // PyTorch multiplies its way from rate to rate, so its own rounding adds up.
        let found = schedule.rate(step as u64);
        assert!((found / expected - 1.0).abs() < 1e-12, "step {step}: {found} against {expected}");
    }
}

#[test]
fn re_estimation_pools_over_batches_of_different_sizes() {
    #[derive(Deserialize)]
    struct Golden {
        sizes: Vec<usize>,
        layers: ByName<Layer>,
    }
    #[derive(Deserialize)]
    struct Layer {
        mean: Vec<f64>,
        variance: Vec<f64>,
    }
    let golden: Golden = read("pooled.json");
    let mut replica = Filled::new("resnet8", 16, [0.0; 2]).replica();
    let sizes = golden.sizes.iter().enumerate();
    let mut batches = sizes.map(|(i, &n)| Ok::<Batch, DataError>(batch(IMAGES + i as u64, n, 16)));
    let found = replica.recalibrate(&mut batches, 0.0).unwrap();
    assert_eq!(found.images, 16);
    let state = replica.state().unwrap().weights;
    for (name, expected) in &golden.layers {
        // The mean is judged in units of the deviation: it may be near zero.
        let mean = values(&state, &format!("{name}.running_mean"));
        for (c, (found, expected_mean)) in mean.iter().zip(&expected.mean).enumerate() {
            let error = (f64::from(*found) - expected_mean).abs() / expected.variance[c].sqrt();
            assert!(error < 2e-6, "mean of {name}, channel {c}: {error:e}");
        }
        let variance = values(&state, &format!("{name}.running_var"));
        let error = relative_error(variance.iter().copied(), &expected.variance);
        assert!(error < 2e-6, "variance of {name}: {error:e}");
        let batches = state.require(&format!("{name}.num_batches_tracked")).unwrap();
        assert_eq!(*batches.values(), hwa_core::Values::I64(vec![3]));
    }
}
