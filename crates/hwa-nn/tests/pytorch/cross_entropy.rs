//! Cross entropy and its gradient, of any scores.

use burn::tensor::Device;
use hwa_nn::{Mode, Precision, ops};
use serde::Deserialize;

use crate::bounds::{LAST_PLACES, relative_error};
use crate::ways::Way;
use crate::{ByName, read, tensor, to_vec};

/// A number, or the name of what is none.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Finite(f64),
    Named(String),
}

impl Value {
    fn get(&self) -> f64 {
        match self {
            Self::Finite(value) => *value,
            Self::Named(name) => name.parse().unwrap(),
        }
    }
}

/// Infinities and NaN in the same places; of the rest, the relative error.
fn error_of_numbers(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let is_same = |(f, e): (&f64, &f64)| f == e || f.is_nan() && e.is_nan();
    let pairs = || found.iter().zip(expected);
    if !pairs().filter(|(_, e)| !e.is_finite()).all(is_same) {
        return f64::INFINITY;
    }
    let (found, expected): (Vec<f64>, Vec<f64>) = pairs().filter(|(_, e)| e.is_finite()).unzip();
    if expected.is_empty() { 0.0 } else { relative_error(found, &expected) }
}

#[test]
fn cross_entropy_and_its_gradient_are_pytorchs_whatever_the_scores() {
    #[derive(Deserialize)]
    struct Golden {
        labels: Vec<u32>,
        cases: ByName<Case>,
    }
    #[derive(Deserialize)]
    struct Case {
        scores: Vec<Value>,
        loss: Value,
        gradient: Vec<Value>,
    }
    let golden: Golden = read("cross_entropy.json");
    let device = Device::flex().autodiff();
    let images = golden.labels.len();
    for (name, case) in golden.cases {
        for way in [Way::Kernels(Precision::default()), Way::Standard] {
            let scores: Vec<f32> = case.scores.iter().map(|score| score.get() as f32).collect();
            let shape = [images, scores.len() / images];
            let scores = tensor(scores, shape, &device).require_grad();
            let pass = way.pass(Mode::Train);
            let loss = ops::cross_entropy(scores.clone(), &golden.labels, &pass);
            let gradient = to_vec(scores.grad(&loss.backward()).unwrap());
            let error = error_of_numbers(&[loss.into_scalar::<f64>()], &[case.loss.get()]);
            assert!(error < LAST_PLACES, "loss, {name}, {way:?}: {error:e}");
            let gradient: Vec<f64> = gradient.into_iter().map(f64::from).collect();
            let expected: Vec<f64> = case.gradient.iter().map(Value::get).collect();
            let error = error_of_numbers(&gradient, &expected);
            assert!(error < 2.0 * LAST_PLACES, "gradient, {name}, {way:?}: {error:e}");
        }
    }
}
