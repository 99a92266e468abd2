//! Pooling.

use crate::combine::Combine;
use crate::finish::{Finish, Totals};
use crate::memory::with_scratch;
use crate::read::{Activation, Source};
use crate::shape::Shape;
use crate::simd::Level;

/// The mean over each image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GlobalAverage {
    pub level: Level,
    pub input: Shape,
}

impl GlobalAverage {
    pub(crate) fn forward(&self, source: Source<'_>, output: &mut [f32]) {
        let (level, shape) = (self.level, self.input);
        let (pixels, width) = (shape.height * shape.width, shape.stride());
        let average = |x: &[f32], output: &mut [f32]| {
            for (image, mean) in x.chunks(pixels * width).zip(output.chunks_mut(width)) {
                mean.fill(0.0);
                for pixel in image.chunks(width) {
                    mean.iter_mut().zip(pixel).for_each(|(mean, x)| *mean += x);
                }
                mean.iter_mut().for_each(|mean| *mean /= pixels as f32);
            }
        };
        match source {
            Source::Stored(x) => average(x, output),
            source => with_scratch([shape.len()], |[x]| {
                Combine { level, shape }.forward(source, None, Activation::None, x);
                average(x, output);
            }),
        }
    }

    pub(crate) fn backward(
        &self,
        gradient: Source<'_>,
        input: &mut [f32],
        finish: Finish<'_>,
    ) -> Vec<Totals> {
        let (level, shape) = (self.level, self.input);
        let (pixels, width) = (shape.height * shape.width, shape.stride());
        let one = Shape { height: 1, width: 1, ..shape };
        with_scratch([one.len()], |[g]| {
            Combine { level, shape: one }.forward(gradient, None, Activation::None, g);
            g.iter_mut().for_each(|g| *g /= pixels as f32);
            for (image, g) in input.chunks_mut(pixels * width).zip(g.chunks(width)) {
                image.chunks_mut(width).for_each(|pixel| pixel.copy_from_slice(g));
            }
        });
        Combine { level, shape }.finish(input, finish)
    }
}
