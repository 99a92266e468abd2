//! Tensors by name: whatever a module holds comes out, goes back in, and a set that
//! does not fit leaves the module as it was.

// Clippy's exception for tests does not reach the functions beside them.
#![allow(clippy::unwrap_used, clippy::panic)]

use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use hwa_core::{Role, Tensor as NamedTensor, Values, Weights, WeightsError};
use hwa_nn::names;
use proptest::prelude::*;

/// Burn's own layers, nested, repeated, optional and with a counter.
#[derive(Module, Debug)]
struct Foreign {
    stem: Conv2d,
    norm: BatchNorm,
    heads: Vec<Linear>,
    scale: Option<Param<Tensor<1>>>,
    seen: Param<Tensor<1, Int>>,
}

impl Foreign {
    fn new(device: &Device) -> Self {
        let scale = Tensor::from_data(TensorData::new(vec![0.5f32, 2.0], [2]), device);
        Self {
            stem: Conv2dConfig::new([3, 4], [3, 3]).init(device),
            norm: BatchNormConfig::new(4).init(device),
            heads: (0..2).map(|_| LinearConfig::new(4, 2).init(device)).collect(),
            scale: Some(Param::from_tensor(scale)),
            seen: Param::initialized(
                burn::module::ParamId::new(),
                Tensor::from_data(TensorData::new(vec![3i64, 4], [2]), (device, DType::I64)),
            ),
        }
    }
}

#[test]
fn names_are_field_paths_and_roles_follow_them() {
    let weights = names::export(&Foreign::new(&Device::flex())).unwrap();
    let found: Vec<(&str, Role, &[usize])> =
        weights.iter().map(|(name, t)| (name, t.role(), t.shape())).collect();
    let expected: [(&str, Role, &[usize]); 12] = [
        ("heads.0.bias", Role::Parameter, &[2]),
        ("heads.0.weight", Role::Parameter, &[4, 2]),
        ("heads.1.bias", Role::Parameter, &[2]),
        ("heads.1.weight", Role::Parameter, &[4, 2]),
        ("norm.beta", Role::Parameter, &[4]),
        ("norm.gamma", Role::Parameter, &[4]),
        ("norm.running_mean", Role::Statistic, &[4]),
        ("norm.running_var", Role::Statistic, &[4]),
        ("scale", Role::Parameter, &[2]),
        ("seen", Role::Counter, &[2]),
        ("stem.bias", Role::Parameter, &[4]),
        ("stem.weight", Role::Parameter, &[4, 3, 3, 3]),
    ];
    assert_eq!(found, expected);
}

/// One of two things.
#[derive(Module, Debug)]
enum Either {
    Stem(Conv2d),
    Head(Linear),
}

#[test]
fn the_variant_of_an_enum_is_no_part_of_a_name() {
    let device = Device::flex();
    let stem = Either::Stem(Conv2dConfig::new([3, 4], [3, 3]).init(&device));
    let head = Either::Head(LinearConfig::new(4, 2).init(&device));
    let layers = vec![stem, head];
    let weights = names::export(&layers).unwrap();
    let found: Vec<&str> = weights.iter().map(|(name, _)| name).collect();
    assert_eq!(found, ["0.bias", "0.weight", "1.bias", "1.weight"]);
    let others = replaced(&weights, || 7);
    assert_eq!(names::export(&names::load(&layers, &others).unwrap()).unwrap(), others);
}

#[test]
fn pending_statistics_of_burns_batch_norm_neither_hide_nor_overwrite() {
    let device = Device::flex().autodiff();
    let module = Foreign::new(&device);
    let x = Tensor::<4>::ones([2, 4, 3, 3], &device) * 5.0;
    module.norm.forward(x);
    // The running mean moves by a tenth from 0 to 5.
    let weights = names::export(&module).unwrap();
    let mean = weights.require("norm.running_mean").unwrap().as_f32().unwrap();
    assert!((mean[0] - 0.5).abs() < 1e-6, "{mean:?}");

    module.norm.forward(Tensor::<4>::ones([2, 4, 3, 3], &device));
    let loaded = names::load(&module, &weights).unwrap();
    assert_eq!(names::export(&loaded).unwrap(), weights);
    assert_ne!(names::export(&module).unwrap(), weights);
}

#[test]
fn a_counter_beyond_its_type_saturates() {
    let device = Device::flex();
    let mut module = Foreign::new(&device);
    module.seen = module.seen.map(|seen| seen.cast(DType::I32));
    let weights = replaced(&names::export(&module).unwrap(), || u32::MAX);
    let loaded = names::load(&module, &weights).unwrap();
    let found = names::export(&loaded).unwrap();
    let expected = Values::I64(vec![i32::MAX.into(); 2]);
    assert_eq!(*found.require("seen").unwrap().values(), expected);
}

#[test]
fn what_does_not_fit_is_named() {
    let module = Foreign::new(&Device::flex());
    let whole = names::export(&module).unwrap();
    let without = |name: &str| -> Weights {
        let mut rest = Weights::new();
        for (n, t) in whole.iter().filter(|(n, _)| *n != name) {
            rest.insert(n, t.clone()).unwrap();
        }
        rest
    };
    let refuse = |weights: &Weights| names::load(&module, weights).unwrap_err();
    let name = || "scale".to_owned();
    assert_eq!(refuse(&without("scale")), WeightsError::Missing { name: name() });

    let mut reshaped = without("scale");
    reshaped.insert("scale", NamedTensor::parameter(vec![1], vec![1.0]).unwrap()).unwrap();
    let differ = WeightsError::ShapesDiffer { name: name(), expected: vec![2], found: vec![1] };
    assert_eq!(refuse(&reshaped), differ);

    let mut more = whole.clone();
    more.insert("extra", NamedTensor::parameter(vec![1], vec![1.0]).unwrap()).unwrap();
    assert_eq!(refuse(&more), WeightsError::Unexpected { name: "extra".to_owned() });
    assert_eq!(names::export(&module).unwrap(), whole);
}

fn replaced(layout: &Weights, mut one: impl FnMut() -> u32) -> Weights {
    let mut weights = Weights::new();
    for (name, tensor) in layout.iter() {
        let values = match tensor.values() {
            Values::I64(v) => Values::I64(v.iter().map(|_| i64::from(one()) << 31).collect()),
            v => Values::F32((0..v.len()).map(|_| f32::from_bits(one())).collect()),
        };
        let tensor = NamedTensor::new(tensor.role(), tensor.shape().to_vec(), values).unwrap();
        weights.insert(name, tensor).unwrap();
    }
    weights
}

fn bits(weights: &Weights) -> Vec<u64> {
    let of = |t: &NamedTensor| match t.values() {
        Values::F32(v) => v.iter().map(|x| x.to_bits().into()).collect::<Vec<u64>>(),
        Values::I64(v) => v.iter().map(|x| *x as u64).collect(),
        other => panic!("{other:?}"),
    };
    weights.iter().flat_map(|(_, t)| of(t)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any bits at all: NaNs with payloads, infinities, negative zeros.
    #[test]
    fn every_bit_makes_the_round_trip(seed in any::<u32>(), training in any::<bool>()) {
        let device = Device::flex();
        let device = if training { device.autodiff() } else { device };
        let module = Foreign::new(&device);
        let mut state = seed | 1;
        let weights = replaced(&names::export(&module).unwrap(), || {
            state = state.wrapping_mul(0x9E37_79B1) ^ (state >> 15);
            state
        });
        let loaded = names::load(&module, &weights).unwrap();
        prop_assert_eq!(bits(&names::export(&loaded).unwrap()), bits(&weights));
        prop_assert_eq!(loaded.stem.weight.is_require_grad(), training);
        prop_assert!(!loaded.norm.running_mean.value().is_require_grad());
    }
}
