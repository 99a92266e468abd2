//! What the CPU can do at most, to hold the kernels against.

use std::hint::black_box;

use crate::simd::{GROUP, Kernel, Level, Simd};

/// Vectors that are worked on side by side: more than a CPU needs to hide how long one takes.
const VECTORS: usize = 10;

/// Multiplies and adds in registers and nothing else; gives how many numbers were, so that
/// twice as many divided by the time is the peak of a core.
pub fn multiply_and_add(level: Level, rounds: usize) -> usize {
    black_box(level.run(Registers { rounds }));
    rounds * VECTORS * level.lanes()
}

struct Registers {
    rounds: usize,
}

impl Kernel for Registers {
    type Output = [f32; GROUP];

    #[inline(always)]
    fn run<S: Simd>(self) -> [f32; GROUP] {
        let (half, one) = (S::splat(black_box(0.5)), S::splat(black_box(1.0)));
        let mut sums = [S::zero(); VECTORS];
        for _ in 0..self.rounds {
            sums.iter_mut().for_each(|sum| *sum = sum.mul_add(half, one));
        }
        let total = sums.into_iter().fold(S::zero(), S::add);
        let mut numbers = [0.0; GROUP];
        // SAFETY: a group is at least a vector.
        unsafe { total.store(numbers.as_mut_ptr()) };
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_that_is_told_is_done() {
        for level in Level::available() {
            // 1 + 1/2 + 1/4 of every vector.
            let numbers = level.run(Registers { rounds: 3 });
            assert_eq!(numbers[0], VECTORS as f32 * 1.75);
            assert_eq!(multiply_and_add(level, 3), 3 * VECTORS * level.lanes());
        }
    }
}
