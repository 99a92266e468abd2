//! The mean of weights: one definition for models, windows and files.
//!
//! The mean is the `f64` sum of the members in the order given, starting from
//! the first, divided by their count and rounded once to the weights' type.
//! Order is part of the definition, so thread timing cannot change a bit.

use half::{bf16, f16};

use crate::weights::{Role, Tensor, Values, Weights, WeightsError};

/// What a mean does with batch-norm statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistics {
    /// Leaves them (and the counters beside them) out: they will be re-estimated.
    Omit,
    /// Averages them like parameters, for whoever cannot re-estimate them.
    Average,
}

/// Elements summed at a time: the `f64` sums of a piece stay in the L1 cache
/// while the members stream past.
const PIECE: usize = 2048;

/// Averages weights that share names, shapes, types and roles.
///
/// Counters are never averaged: they are taken from the last member.
///
/// ```
/// use hwa_core::{Statistics, Tensor, Weights, mean};
///
/// let weights = |values: [f32; 2]| {
///     let mut weights = Weights::new();
///     weights.insert("w", Tensor::parameter(vec![2], values.to_vec())?)?;
///     Ok::<_, hwa_core::WeightsError>(weights)
/// };
/// let (a, b) = (weights([1.0, 2.0])?, weights([3.0, 6.0])?);
/// let average = mean(&[&a, &b], Statistics::Omit)?;
/// assert_eq!(average.require("w")?.as_f32(), Some(&[2.0, 4.0][..]));
/// # Ok::<_, hwa_core::WeightsError>(())
/// ```
pub fn mean(members: &[&Weights], statistics: Statistics) -> Result<Weights, WeightsError> {
    let (first, rest) = members.split_first().ok_or(WeightsError::Empty)?;
    for other in rest {
        first.ensure_same_layout(other)?;
    }
    let last = members[members.len() - 1];
    let mut average = Weights::new();
    for (name, tensor) in first.iter() {
        let values = match (tensor.role(), statistics) {
            (Role::Parameter, _) | (Role::Statistic, Statistics::Average) => {
                mean_values(name, members)?
            }
            (Role::Counter, Statistics::Average) => last.require(name)?.values().clone(),
            (Role::Statistic | Role::Counter, Statistics::Omit) => continue,
        };
        average.insert(name, Tensor::new(tensor.role(), tensor.shape().to_vec(), values)?)?;
    }
    Ok(average)
}

fn mean_values(name: &str, members: &[&Weights]) -> Result<Values, WeightsError> {
    let tensors: Vec<&Values> =
        members.iter().map(|m| Ok(m.require(name)?.values())).collect::<Result<_, _>>()?;
    mean_of_values(&tensors)
}

/// The mean of elements without a name, for whoever averages tensors in pieces: the same bits
/// as those of [`mean`]. Integers count: those of the last member are taken.
///
/// ```
/// use hwa_core::{Values, mean_of_values};
///
/// let (a, b) = (Values::F32(vec![1.0, 2.0]), Values::F32(vec![3.0, 6.0]));
/// assert_eq!(mean_of_values(&[&a, &b])?, Values::F32(vec![2.0, 4.0]));
/// # Ok::<_, hwa_core::WeightsError>(())
/// ```
pub fn mean_of_values(members: &[&Values]) -> Result<Values, WeightsError> {
    let (first, rest) = members.split_first().ok_or(WeightsError::Empty)?;
    for other in rest {
        if other.len() != first.len() || other.value_type() != first.value_type() {
            return Err(WeightsError::PiecesDiffer {
                expected: (first.value_type(), first.len()),
                found: (other.value_type(), other.len()),
            });
        }
    }
    Ok(match first {
        Values::F64(_) => Values::F64(mean_of(&slices(members, as_f64))),
        Values::F32(_) => Values::F32(mean_of(&slices(members, as_f32))),
        Values::F16(_) => Values::F16(mean_of(&slices(members, as_f16))),
        Values::BF16(_) => Values::BF16(mean_of(&slices(members, as_bf16))),
        Values::I64(_) => members[members.len() - 1].clone(),
    })
}

/// The mean of plain numbers, of whatever library's tensors they are: the same bits as those of
/// [`mean`].
///
/// ```
/// use hwa_core::average;
///
/// let (a, b) = ([1.0f32, 2.0], [3.0, 6.0]);
/// assert_eq!(average(&[&a, &b])?, [2.0, 4.0]);
/// assert!(average(&[&a[..], &b[..1]]).is_err());
/// # Ok::<_, hwa_core::WeightsError>(())
/// ```
pub fn average<T: Element>(members: &[&[T]]) -> Result<Vec<T>, WeightsError> {
    let (first, rest) = members.split_first().ok_or(WeightsError::Empty)?;
    match rest.iter().find(|other| other.len() != first.len()) {
        Some(other) => {
            Err(WeightsError::LengthsDiffer { expected: first.len(), found: other.len() })
        }
        None => Ok(mean_of(members)),
    }
}

/// The members' elements, which all have one type.
fn slices<'a, T>(
    tensors: &[&'a Values],
    get: impl Fn(&'a Values) -> Option<&'a [T]>,
) -> Vec<&'a [T]> {
    tensors.iter().filter_map(|v| get(v)).collect()
}

macro_rules! typed_view {
    ($($name:ident: $variant:ident => $type:ty),*) => {$(
        fn $name(values: &Values) -> Option<&[$type]> {
            match values {
                Values::$variant(v) => Some(v),
                _ => None,
            }
        }
    )*};
}

typed_view!(as_f64: F64 => f64, as_f32: F32 => f32, as_f16: F16 => f16, as_bf16: BF16 => bf16);

/// An element that is summed in `f64` and rounded back once.
///
/// Whoever sums elsewhere than in memory, as over files, rounds by this too.
pub trait Element: Copy {
    /// The same number.
    fn widen(self) -> f64;
    /// The nearest number of this type, ties to even, whatever the CPU.
    fn round(wide: f64) -> Self;
}

macro_rules! element {
    ($($type:ty: $widen:expr, $round:expr;)*) => {$(
        impl Element for $type {
            #[inline]
            fn widen(self) -> f64 {
                $widen(self)
            }
            #[inline]
            fn round(wide: f64) -> Self {
                $round(wide)
            }
        }
    )*};
}

element! {
    f64: |x| x, |x| x;
    f32: f64::from, |x| x as f32;
    f16: f16::to_f64, to_f16;
    bf16: bf16::to_f64, to_bf16;
}

/// Rounded once.
pub(crate) fn to_f16(wide: f64) -> f16 {
    f16::from_f32(round_to_odd(wide))
}

/// Rounded once.
pub(crate) fn to_bf16(wide: f64) -> bf16 {
    bf16::from_f32(round_to_odd(wide))
}

/// `f32` with the last bit set whenever something was cut off, so that rounding
/// further to half precision is correct (Boldo and Melquiond 2008). The `half`
/// crate's own `from_f64` rounds twice where the CPU has F16C.
fn round_to_odd(wide: f64) -> f32 {
    let near = wide as f32;
    if wide.is_nan() || f64::from(near) == wide {
        return near;
    }
    let away_from_zero = f64::from(near).abs() > wide.abs();
    let towards_zero = near.to_bits() - u32::from(away_from_zero);
    f32::from_bits(towards_zero | 1)
}

fn mean_of<T: Element>(members: &[&[T]]) -> Vec<T> {
    let Some((first, rest)) = members.split_first() else {
        return Vec::new();
    };
    let count = members.len() as f64;
    let mut average = Vec::with_capacity(first.len());
    let mut sums = [0.0f64; PIECE];
    for start in (0..first.len()).step_by(PIECE) {
        let end = (start + PIECE).min(first.len());
        let sums = &mut sums[..end - start];
        // Starting from the first member, not from zero, keeps -0.0 what it is.
        for (sum, x) in sums.iter_mut().zip(&first[start..end]) {
            *sum = x.widen();
        }
        for member in rest {
            for (sum, x) in sums.iter_mut().zip(&member[start..end]) {
                *sum += x.widen();
            }
        }
        average.extend(sums.iter().map(|sum| T::round(sum / count)));
    }
    average
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn weights(tensors: Vec<(&str, Role, Values)>) -> Weights {
        let mut weights = Weights::new();
        for (name, role, values) in tensors {
            let tensor = Tensor::new(role, vec![values.len()], values).unwrap();
            weights.insert(name, tensor).unwrap();
        }
        weights
    }

    fn single(values: Values) -> Weights {
        weights(vec![("w", Role::Parameter, values)])
    }

    /// Between all neighbours of a half type: what lies nearer to one is that one, and what lies
    /// in the middle is the even one. Nothing here rounds but by comparison.
    fn is_rounded_to_nearest(infinity: u16, wide: impl Fn(u16) -> f64, round: impl Fn(f64) -> u16) {
        for low in 0..infinity {
            // Behind the greatest number there would be one more, with the same distance.
            let below = wide(low);
            let above = match low + 1 == infinity {
                true => 2.0 * below - wide(low - 1),
                false => wide(low + 1),
            };
            let middle = below + (above - below) / 2.0;
            let even = low + low % 2;
            for (x, expected) in [
                (below, low),
                (below.next_up(), low),
                (middle.next_down(), low),
                (middle, even),
                (middle.next_up(), low + 1),
                (above.next_down(), low + 1),
            ] {
                assert_eq!(round(x), expected, "{x:e}");
                assert_eq!(round(-x), expected | 0x8000, "{:e}", -x);
            }
        }
        assert_eq!([round(f64::MAX), round(f64::INFINITY)], [infinity; 2]);
        assert_eq!(round(f64::NAN) & infinity, infinity);
        assert_ne!(round(f64::NAN) & 0x7fff, infinity);
    }

    #[test]
    fn half_precision_is_rounded_to_the_nearest_of_all_its_numbers() {
        // 1 sign, 5 bits of an exponent with bias 15, 10 of a fraction.
        let wide = |bits: u16| match bits >> 10 {
            0 => f64::from(bits) * 2f64.powi(-24),
            exponent => f64::from(1024 + (bits & 1023)) * 2f64.powi(i32::from(exponent) - 25),
        };
        is_rounded_to_nearest(0x7c00, wide, |x| to_f16(x).to_bits());
        // 1 sign, 8 bits of an exponent with bias 127, 7 of a fraction.
        let wide = |bits: u16| match bits >> 7 {
            0 => f64::from(bits) * 2f64.powi(-133),
            exponent => f64::from(128 + (bits & 127)) * 2f64.powi(i32::from(exponent) - 134),
        };
        is_rounded_to_nearest(0x7f80, wide, |x| to_bf16(x).to_bits());
    }

    #[test]
    fn the_mean_of_nothing_is_an_error() {
        assert_eq!(mean(&[], Statistics::Omit).unwrap_err(), WeightsError::Empty);
    }

    #[test]
    fn the_mean_of_one_member_is_that_member_bit_for_bit() {
        let member = single(Values::F32(vec![-0.0, f32::MIN_POSITIVE / 2.0, f32::INFINITY, 0.1]));
        let average = mean(&[&member], Statistics::Omit).unwrap();
        let bits = |w: &Weights| -> Vec<u32> {
            w.get("w").unwrap().as_f32().unwrap().iter().map(|x| x.to_bits()).collect()
        };
        assert_eq!(bits(&average), bits(&member));
    }

    #[test]
    fn sums_run_wider_than_the_weights() {
        // In f32, 1e8 + 1 = 1e8: the mean would lose the ones. In f64 it is exact.
        let members: Vec<Weights> =
            [1e8, 1.0, 1.0, -1e8].map(|x| single(Values::F32(vec![x]))).into();
        let average = mean(&members.iter().collect::<Vec<_>>(), Statistics::Omit).unwrap();
        assert_eq!(average.get("w").unwrap().as_f32().unwrap(), [0.5]);
    }

    #[test]
    fn half_precision_averages_do_not_round_to_nothing() {
        // 2048 + 1 = 2048 in f16: a running sum in f16 would return the first member.
        let ones = [f16::from_f32(2048.0), f16::from_f32(2050.0), f16::from_f32(2052.0)];
        let members: Vec<Weights> = ones.iter().map(|x| single(Values::F16(vec![*x]))).collect();
        let average = mean(&members.iter().collect::<Vec<_>>(), Statistics::Omit).unwrap();
        assert_eq!(average.get("w").unwrap().values(), &Values::F16(vec![f16::from_f32(2050.0)]));
    }

    #[test]
    fn rounding_to_half_precision_happens_once() {
        // Just above the midpoint of two neighbours, by less than f32 can see: going through
        // f32 first would land on the midpoint and round to even, downwards.
        let above = |midpoint: f64| midpoint * (1.0 + 1e-12);
        assert_eq!(f16::round(above(1.0 + 0.5 / 1024.0)), f16::from_f32(1.0 + 1.0 / 1024.0));
        assert_eq!(bf16::round(above(1.0 + 0.5 / 128.0)), bf16::from_f32(1.0 + 1.0 / 128.0));
    }

    #[test]
    fn counters_are_taken_from_the_newest_and_never_averaged() {
        let member = |mean: f32, count: i64| {
            weights(vec![
                ("bn.num_batches_tracked", Role::Counter, Values::I64(vec![count])),
                ("bn.running_mean", Role::Statistic, Values::F32(vec![mean])),
                ("bn.weight", Role::Parameter, Values::F32(vec![mean])),
            ])
        };
        let (a, b) = (member(1.0, 10), member(3.0, 21));
        let average = mean(&[&a, &b], Statistics::Average).unwrap();
        let value = |name: &str| average.get(name).unwrap().values().clone();
        assert_eq!(value("bn.num_batches_tracked"), Values::I64(vec![21]));
        assert_eq!(value("bn.running_mean"), Values::F32(vec![2.0]));
        assert_eq!(value("bn.weight"), Values::F32(vec![2.0]));

        let bare = mean(&[&a, &b], Statistics::Omit).unwrap();
        assert_eq!(bare.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["bn.weight"]);
    }

    #[test]
    fn pieces_that_differ_are_refused() {
        let (a, b) = (Values::F32(vec![1.0]), Values::F32(vec![1.0, 2.0]));
        let error = mean_of_values(&[&a, &b]).unwrap_err().to_string();
        assert_eq!(error, "a piece has 2 elements of F32, expected 1 of F32");
        assert_eq!(mean_of_values(&[]).unwrap_err(), WeightsError::Empty);
        let counts = [Values::I64(vec![3]), Values::I64(vec![5])];
        assert_eq!(mean_of_values(&[&counts[0], &counts[1]]).unwrap(), counts[1]);
    }

    #[test]
    fn members_that_differ_are_refused() {
        let (a, b) = (single(Values::F32(vec![1.0])), single(Values::F64(vec![1.0])));
        let error = mean(&[&a, &b], Statistics::Omit).unwrap_err();
        assert_eq!(error.to_string(), "`w` has type F64, expected F32");
    }

    proptest! {
        #[test]
        fn the_mean_is_the_f64_sum_in_order(
            members in prop::collection::vec(prop::collection::vec(any::<f32>(), 5000), 1..5)
        ) {
            let all: Vec<Weights> =
                members.iter().map(|m| single(Values::F32(m.clone()))).collect();
            let average = mean(&all.iter().collect::<Vec<_>>(), Statistics::Omit).unwrap();
            let found = average.get("w").unwrap().as_f32().unwrap();
            for (i, x) in found.iter().enumerate() {
                let mut sum = f64::from(members[0][i]);
                for member in &members[1..] {
                    sum += f64::from(member[i]);
                }
                let expected = (sum / members.len() as f64) as f32;
                prop_assert!(x.to_bits() == expected.to_bits() || (x.is_nan() && expected.is_nan()));
            }
        }

        #[test]
        fn equal_members_have_their_own_mean(
            member in prop::collection::vec(-1e30f32..1e30, 1..50), count in 1usize..9
        ) {
            let one = single(Values::F32(member));
            let average = mean(&vec![&one; count], Statistics::Omit).unwrap();
            prop_assert_eq!(average, one);
        }
    }
}
