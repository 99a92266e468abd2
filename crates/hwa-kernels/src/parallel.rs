//! Work in parts, on one thread or several, with the same result.
//!
//! How work is divided depends on its size alone, and what the parts give is put together in
//! their order. So the number of threads cannot change a bit.

use std::ops::Range;

use rayon::prelude::*;

/// The most parts a piece of work is divided into.
const PARTS: usize = 16;

/// The numbers that sums of all parts may take together.
pub(crate) const ROOM: usize = 1 << 20;

/// `count` things in ranges of about the same length: `wanted` of them, but at least one, and no
/// more than there are things or [`PARTS`].
pub(crate) fn ranges(count: usize, wanted: usize) -> Vec<Range<usize>> {
    let parts = wanted.max(1).min(count).min(PARTS);
    (0..parts).map(|i| i * count / parts..(i + 1) * count / parts).collect()
}

/// Adds pieces of `len` numbers to the first of them, in their order.
pub(crate) fn add_to_first(pieces: &mut [f32], len: usize) {
    let Some((first, others)) = pieces.split_at_mut_checked(len) else { return };
    for other in others.chunks(len.max(1)) {
        first.iter_mut().zip(other).for_each(|(sum, x)| *sum += x);
    }
}

/// Does `work` on every item; results come in the order of the items.
pub(crate) fn map<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync + Send) -> Vec<R> {
    if rayon::current_num_threads() > 1 && items.len() > 1 {
        items.into_par_iter().map(work).collect()
    } else {
        items.into_iter().map(work).collect()
    }
}

/// As [`map`], for work inside of other work: on several threads only if that is `alone`.
pub(crate) fn map_within<T: Send>(alone: bool, items: Vec<T>, work: impl Fn(T) + Sync + Send) {
    if alone {
        map(items, work);
    } else {
        items.into_iter().for_each(work);
    }
}

/// Divides numbers into pieces of the given lengths.
pub(crate) fn split(
    mut numbers: &mut [f32],
    lens: impl IntoIterator<Item = usize>,
) -> Vec<&mut [f32]> {
    let mut pieces = Vec::new();
    for len in lens {
        let (piece, rest) = numbers.split_at_mut(len);
        pieces.push(piece);
        numbers = rest;
    }
    pieces
}
