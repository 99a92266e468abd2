//! Sums over pieces of members, as they lie in files: little-endian bytes.
//!
//! The sums are those of `hwa_core::mean`: in `f64`, oldest first, starting from the first,
//! divided once and rounded once. Several members at a time are added in one pass over the sums,
//! one after the other for each element, so that the order stays what it is. The loops are plain
//! ones that a compiler makes vectors of, for the CPU that they run on: every element is rounded
//! alike on all of them.

use std::marker::PhantomData;

use half::{bf16, f16};
use hwa_core::{Element, ValueType};
use pulp::{Arch, NullaryFnOnce};

/// Members that are added in one pass over the sums, at most.
pub(crate) const GROUP: usize = 5;

/// An element as it lies in a file.
trait Little<const N: usize> {
    fn wide(bytes: [u8; N]) -> f64;
    fn rounded(wide: f64) -> [u8; N];
}

impl Little<8> for f64 {
    #[inline(always)]
    fn wide(bytes: [u8; 8]) -> f64 {
        f64::from_le_bytes(bytes)
    }
    #[inline(always)]
    fn rounded(wide: f64) -> [u8; 8] {
        wide.to_le_bytes()
    }
}

impl Little<4> for f32 {
    #[inline(always)]
    fn wide(bytes: [u8; 4]) -> f64 {
        f64::from(f32::from_le_bytes(bytes))
    }
    #[inline(always)]
    fn rounded(wide: f64) -> [u8; 4] {
        <f32 as Element>::round(wide).to_le_bytes()
    }
}

impl Little<2> for bf16 {
    #[inline(always)]
    fn wide(bytes: [u8; 2]) -> f64 {
        f64::from(f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16))
    }
    #[inline(always)]
    fn rounded(wide: f64) -> [u8; 2] {
        <bf16 as Element>::round(wide).to_le_bytes()
    }
}

impl Little<2> for f16 {
    /// Without a branch: the exponent moved to where `f32` has it is too small by 112, which a
    /// product makes up for, also for numbers below the normal ones.
    #[inline(always)]
    fn wide(bytes: [u8; 2]) -> f64 {
        const UP: f32 = f32::from_bits((127 + 112) << 23);
        const INFINITE: u32 = 0x7f80_0000;
        let bits = u32::from(u16::from_le_bytes(bytes));
        let size = f32::from_bits((bits & 0x7fff) << 13) * UP;
        // What was infinite or NaN would be a number of 2^16 or more, which no other becomes.
        let beyond = if size >= 65536.0 { INFINITE } else { 0 };
        f64::from(f32::from_bits(size.to_bits() | beyond | (bits & 0x8000) << 16))
    }
    #[inline(always)]
    fn rounded(wide: f64) -> [u8; 2] {
        <f16 as Element>::round(wide).to_le_bytes()
    }
}

/// Runs a loop with the instructions of this CPU.
#[inline(always)]
fn vectorized(work: impl NullaryFnOnce<Output = ()>) {
    Arch::new().dispatch(work);
}

/// Picks the loop for a type. Integers are never summed.
macro_rules! by_type {
    ($value_type:expr, $work:ident($($argument:expr),*)) => {
        match $value_type {
            ValueType::F64 => $work::<f64, 8>($($argument),*),
            ValueType::F32 => $work::<f32, 4>($($argument),*),
            ValueType::F16 => $work::<f16, 2>($($argument),*),
            ValueType::BF16 => $work::<bf16, 2>($($argument),*),
            ValueType::I64 => {}
        }
    };
}

/// Sets the sums to the elements of the first member, and adds the others, one after the other.
pub(crate) fn begin(value_type: ValueType, sums: &mut [f64], members: &[&[u8]]) {
    by_type!(value_type, sum_typed(sums, members, Start::First));
}

/// Adds members to the sums, one after the other.
pub(crate) fn add(value_type: ValueType, sums: &mut [f64], members: &[&[u8]]) {
    by_type!(value_type, sum_typed(sums, members, Start::Sums));
}

/// Keeps so much of the sums, and adds so much of a member.
pub(crate) fn blend(value_type: ValueType, sums: &mut [f64], member: &[u8], share: Share) {
    by_type!(value_type, blend_typed(sums, member, share));
}

/// Divides the sums, rounds them once, and writes them as bytes of a type.
pub(crate) fn finish(value_type: ValueType, sums: &[f64], divisor: f64, into: &mut [u8]) {
    by_type!(value_type, finish_typed(sums, divisor, into));
}

/// Whether all elements are finite.
pub(crate) fn is_finite(value_type: ValueType, bytes: &[u8]) -> bool {
    let mut sums = vec![0.0; bytes.len() / value_type.num_bytes()];
    begin(value_type, &mut sums, &[bytes]);
    all_finite(&sums)
}

/// Whether all sums are finite; one infinity or NaN among the members makes a sum one.
pub(crate) fn all_finite(sums: &[f64]) -> bool {
    // Zero times anything finite is zero, and this has no early end that would stop vectors.
    const LANES: usize = 8;
    let (chunks, rest) = sums.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for (lane, sum) in lanes.iter_mut().zip(chunk) {
            *lane += sum * 0.0;
        }
    }
    lanes.iter().chain(rest).all(|lane| lane.is_finite())
}

/// How a member enters a weighted mean or a moving average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    pub(crate) keep: f64,
    pub(crate) take: f64,
}

/// What members are added to.
#[derive(Clone, Copy)]
enum Start {
    /// Nothing, not even zero, which would make -0 a 0.
    First,
    Sums,
}

fn sum_typed<T: Little<N>, const N: usize>(sums: &mut [f64], members: &[&[u8]], start: Start) {
    for (number, group) in members.chunks(GROUP).enumerate() {
        let start = if number == 0 { start } else { Start::Sums };
        match *group {
            [a, b, c, d, e] => sum_group::<T, N, 5>(sums, [a, b, c, d, e], start),
            [a, b, c, d] => sum_group::<T, N, 4>(sums, [a, b, c, d], start),
            [a, b, c] => sum_group::<T, N, 3>(sums, [a, b, c], start),
            [a, b] => sum_group::<T, N, 2>(sums, [a, b], start),
            [a] => sum_group::<T, N, 1>(sums, [a], start),
            _ => {}
        }
    }
}

fn sum_group<T: Little<N>, const N: usize, const M: usize>(
    sums: &mut [f64],
    group: [&[u8]; M],
    start: Start,
) {
    // Of one length, which spares the loop its checks.
    let group = group.map(|member| &member.as_chunks().0[..sums.len()]);
    match start {
        Start::First => vectorized(Sum::<T, N, M, true> { sums, group, of: PhantomData }),
        Start::Sums => vectorized(Sum::<T, N, M, false> { sums, group, of: PhantomData }),
    }
}

/// Adds members of one length to the sums, or to nothing. A closure in its place is not always
/// compiled into the function that has the CPU's instructions.
struct Sum<'a, T, const N: usize, const M: usize, const BEGIN: bool> {
    sums: &'a mut [f64],
    group: [&'a [[u8; N]]; M],
    of: PhantomData<T>,
}

impl<T: Little<N>, const N: usize, const M: usize, const BEGIN: bool> NullaryFnOnce
    for Sum<'_, T, N, M, BEGIN>
{
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let group = self.group.map(|member| &member[..self.sums.len()]);
        for (i, sum) in self.sums.iter_mut().enumerate() {
            let first = T::wide(group[0][i]);
            let mut total = if BEGIN { first } else { *sum + first };
            for member in &group[1..] {
                total += T::wide(member[i]);
            }
            *sum = total;
        }
    }
}

fn blend_typed<T: Little<N>, const N: usize>(sums: &mut [f64], member: &[u8], share: Share) {
    let member = member.as_chunks().0;
    vectorized(|| {
        for (sum, x) in sums.iter_mut().zip(member) {
            *sum = *sum * share.keep + T::wide(*x) * share.take;
        }
    });
}

fn finish_typed<T: Little<N>, const N: usize>(sums: &[f64], divisor: f64, into: &mut [u8]) {
    let into = into.as_chunks_mut().0;
    vectorized(|| {
        for (x, sum) in into.iter_mut().zip(sums) {
            *x = T::rounded(sum / divisor);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_widened_as_in_memory() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
            let same = |found: f64, expected: f64| {
                found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan())
            };
            let bytes = bits.to_le_bytes();
            assert!(same(<f16 as Little<2>>::wide(bytes), half.widen()), "{half:?}");
            assert!(same(<bf16 as Little<2>>::wide(bytes), brain.widen()), "{brain:?}");
        }
    }

    #[test]
    fn groups_of_all_sizes_are_added_from_left_to_right() {
        // 37 elements: whole vectors and a rest. Every member has another magnitude, so that
        // another order would be another sum; the first element is -0 in all of them.
        let element = |member: i32, i: i32| match i {
            0 => -0.0f32,
            i => (0.1 + i as f32).powi(1 + member % 7),
        };
        let member = |member: i32| -> Vec<u8> {
            (0..37).flat_map(|i| element(member, i).to_le_bytes()).collect()
        };
        let members: Vec<Vec<u8>> = (0..2 * GROUP as i32 + 1).map(member).collect();
        let members: Vec<&[u8]> = members.iter().map(Vec::as_slice).collect();
        let mut expected = [0.0f64; 37];
        for (number, _) in members.iter().enumerate() {
            for (sum, i) in expected.iter_mut().zip(0..) {
                let x = f64::from(element(number as i32, i));
                *sum = if number == 0 { x } else { *sum + x };
            }
            let (begun, added) = members[..=number].split_at(1 + number / 2);
            let mut sums = [0.0; 37];
            begin(ValueType::F32, &mut sums, begun);
            add(ValueType::F32, &mut sums, added);
            assert_eq!(sums.map(f64::to_bits), expected.map(f64::to_bits), "{number}");
        }
    }

    #[test]
    fn one_number_that_is_none_is_found_wherever_it_is() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for place in [0, 7, 8, 20] {
                let mut sums = vec![f64::MAX; 21];
                assert!(all_finite(&sums));
                sums[place] = bad;
                assert!(!all_finite(&sums));
            }
        }
    }
}
