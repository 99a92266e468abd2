//! The ways of running a network, and how many times PyTorch's error each may make.

use hwa_kernels::simd::Level;
use hwa_nn::{BurnReplica, Mode, Model, Pass, Precision};

/// How many times PyTorch's own error is allowed.
pub(crate) const TIMES: f64 = 2.0;

/// How many times with Winograd's transforms, which give digits for speed.
const FAST_TIMES: f64 = 6.0;

/// How many times with Burn's own operations.
const STANDARD_TIMES: f64 = 3.0;

/// A way of running a network.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    Kernels(Precision),
    Standard,
}

const WAYS: [Way; 3] =
    [Way::Kernels(Precision::Exact), Way::Kernels(Precision::Fast), Way::Standard];

/// Burn's own operations have no level of vectors: with the best is enough.
pub(crate) fn ways() -> impl Iterator<Item = Way> {
    let is_best = Level::chosen() == Ok(Level::best());
    WAYS.into_iter().filter(move |way| is_best || matches!(way, Way::Kernels(_)))
}

/// Whether the kernels multiply and add with one rounding: at every level but the portable one.
fn is_fused() -> bool {
    Level::chosen().unwrap() != Level::PORTABLE
}

impl Way {
    pub(crate) fn pass(self, mode: Mode) -> Pass {
        match self {
            Self::Kernels(precision) => Pass::new(mode).with_precision(precision),
            Self::Standard => Pass::new(mode).on_standard_operations(),
        }
    }

    pub(crate) fn replica(self, replica: BurnReplica<Model>) -> BurnReplica<Model> {
        match self {
            Self::Kernels(precision) => replica.with_precision(precision),
            Self::Standard => replica.on_standard_operations(),
        }
    }

    /// How many times PyTorch's error it may make.
    pub(crate) fn times(self) -> f64 {
        // Twice as many roundings, of which some undo others.
        let unfused = if is_fused() { 1.0 } else { 2f64.sqrt() };
        match self {
            Self::Kernels(Precision::Fast) => FAST_TIMES * unfused,
            Self::Kernels(Precision::Exact) => TIMES * unfused,
            Self::Standard => STANDARD_TIMES,
        }
    }
}
