//! A graph, forward.

use std::collections::HashMap;

use super::Parameter;
use super::plan::{Action, Norm, Program, Slot, View};
use super::profile::Way;
use crate::combine::{Combine, finish_only};
use crate::finish::{Finish, Totals};
use crate::memory::{Buffer, Pool};
use crate::norm::{Affine, Moments, Normaliser};
use crate::pool::{AveragePool, GlobalAverage, MaxPool};
use crate::read::{Activation, Source};
use crate::rearrange::{Concat, Slice, Subsample, pad, unpad};
use crate::simd::{GROUP, padded};

/// By which statistics batch norms normalise.
#[derive(Debug, Clone, Copy)]
pub enum Statistics<'a> {
    /// Those of the batch.
    Batch,
    /// These, for each batch norm in the order of the graph.
    Given(&'a [Moments]),
}

/// What a run forward gives.
#[derive(Debug)]
pub struct Forward {
    /// `[images, height, width, channels]`, without padding.
    pub output: Vec<f32>,
    /// What the batch norms saw, in the order of the graph, and in how many values of each
    /// channel; nothing if it was given.
    pub moments: Vec<(Moments, usize)>,
    /// What backward needs, if it was asked for.
    pub tape: Option<Tape>,
}

/// What a run forward remembers for the way back.
#[derive(Debug)]
pub struct Tape {
    pub(super) pool: Pool,
    pub(super) kept: Vec<Option<Buffer>>,
    pub(super) norms: Vec<Option<Normaliser>>,
    /// Scale one and a shift, for tensors that are seen with a bias or an activation alone.
    pub(super) shifts: HashMap<Slot, Vec<f32>>,
    /// Where max pooling found the largest of each window.
    pub(super) places: HashMap<Slot, Vec<u8>>,
    /// Whether the statistics were given.
    pub(super) given: bool,
}

impl Tape {
    fn new(program: &Program, pool: &Pool, given: bool) -> Self {
        Self {
            pool: pool.clone(),
            kept: program.kept.iter().map(|_| None).collect(),
            norms: program.norms.iter().map(|_| None).collect(),
            shifts: HashMap::new(),
            places: HashMap::new(),
            given,
        }
    }

    pub(super) fn numbers(&self, slot: Slot) -> &[f32] {
        self.kept[slot.0].as_deref().unwrap_or_default()
    }

    pub(super) fn source(&self, view: View) -> Source<'_> {
        let x = self.numbers(view.slot);
        match self.coefficients(view) {
            Some(coefficients) => {
                Source::Normalised { x, coefficients, activation: view.activation }
            }
            None => Source::Stored(x),
        }
    }

    /// The scale and shift with which a tensor is seen, if it is not seen as it is.
    pub(super) fn coefficients(&self, view: View) -> Option<&[f32]> {
        match view.norm {
            Some(norm) => self.norms[norm].as_ref().map(|norm| &norm.coefficients[..]),
            None => self.shifts.get(&view.slot).map(|shift| &shift[..]),
        }
    }
}

impl Program {
    /// Runs the network on `[images, height, width, channels]` without padding.
    ///
    /// # Panics
    ///
    /// If the images or a parameter do not have the length that the graph asks for, or if the
    /// program has a [`limit`](Self::limit).
    pub fn forward(
        &self,
        pool: &Pool,
        images: &[f32],
        parameters: &[&[f32]],
        statistics: Statistics<'_>,
        remember: bool,
    ) -> Forward {
        assert_eq!(self.limit(), None, "what the kernels do not cover");
        assert_eq!(images.len(), self.input.pixels() * self.input.channels, "number of pixels");
        assert!(parameters.len() >= self.parameters, "number of parameters");
        let given = matches!(statistics, Statistics::Given(_));
        let mut run = Run {
            program: self,
            parameters,
            statistics,
            tape: Tape::new(self, pool, given),
            unread: self.kept.iter().map(|kept| kept.readers).collect(),
            moments: Vec::new(),
        };
        run.moments.resize_with(self.norms.len(), Default::default);
        let mut input = pool.take(images.len() + GROUP);
        input[..images.len()].copy_from_slice(images);
        run.store(Slot(0), input, &[]);
        for (number, step) in self.steps.iter().enumerate() {
            self.clock.time(number, Way::Forward, || {
                let mut result = pool.take(self.kept[step.slot.0].shape.len());
                let totals = run.act(step.slot, &step.action, &mut result);
                run.store(step.slot, result, &totals);
            });
            if !remember {
                run.forget(&step.action);
            }
        }
        let output = run.output();
        let moments = if given { Vec::new() } else { run.moments };
        Forward { output, moments, tape: remember.then_some(run.tape) }
    }
}

struct Run<'a> {
    program: &'a Program,
    parameters: &'a [&'a [f32]],
    statistics: Statistics<'a>,
    tape: Tape,
    /// Steps that have yet to read each slot.
    unread: Vec<usize>,
    moments: Vec<(Moments, usize)>,
}

impl Run<'_> {
    /// Makes the tensor of a slot; gives its moments if a batch norm needs them.
    fn act(&mut self, slot: Slot, action: &Action, result: &mut [f32]) -> Vec<Totals> {
        let level = self.program.level;
        let shape = self.program.kept[slot.0].shape;
        let wanted = !self.tape.given && self.program.kept[slot.0].view.norm.is_some();
        let finish = if wanted { Finish::MOMENTS } else { Finish::NOTHING };
        match action {
            Action::Convolution { x, weight, convolution } => {
                let weights = self.parameters[weight.0];
                return convolution.forward(self.tape.source(*x), weights, result, finish);
            }
            Action::Combine { a, b: None, .. } if a.slot == Slot(0) => {
                pad(self.tape.numbers(Slot(0)), shape.channels, result);
            }
            Action::Combine { a, b, activation } => {
                let (a, b) = (self.tape.source(*a), b.map(|b| self.tape.source(b)));
                let (channels, activation) = (shape.channels, *activation);
                Combine { level, channels, activation }.forward(a, b, result);
            }
            Action::MaxPool { x, windows } => {
                let mut places = vec![0; result.len()];
                let pool = MaxPool { level, windows: *windows };
                pool.forward(self.tape.source(*x), result, &mut places);
                self.tape.places.insert(slot, places);
            }
            Action::AveragePool { x, windows } => {
                AveragePool { level, windows: *windows }.forward(self.tape.source(*x), result);
            }
            Action::Slice { x, channels } => {
                let (input, channels) = (self.program.shape(*x), channels.clone());
                Slice { level, input, channels }.forward(self.tape.source(*x), result);
            }
            Action::Concat { a, b, groups } => {
                let (input, others) = (self.program.shape(*a), self.program.shape(*b).channels);
                Concat { level, input, others, groups: *groups }.forward(
                    self.tape.source(*a),
                    self.tape.source(*b),
                    result,
                );
            }
            Action::Subsample { x, stride } => {
                let input = self.program.shape(*x);
                Subsample { level, input, stride: *stride, channels: shape.channels }
                    .forward(self.tape.source(*x), result);
            }
            Action::GlobalAverage { x } => {
                let input = self.program.shape(*x);
                let mut means = vec![0.0; shape.images * shape.channels];
                GlobalAverage { level, input }.forward(self.tape.source(*x), &mut means);
                pad(&means, shape.channels, result);
            }
        }
        finish_only(level, shape.channels, result, finish)
    }

    /// Keeps a tensor, and prepares how it is seen.
    fn store(&mut self, slot: Slot, numbers: Buffer, totals: &[Totals]) {
        self.tape.kept[slot.0] = Some(numbers);
        let kept = &self.program.kept[slot.0];
        let (view, channels) = (kept.view, kept.shape.channels);
        let bias = view.bias.map(|Parameter(number)| self.parameters[number]);
        if let Some(number) = view.norm {
            let moments = match self.statistics {
                Statistics::Given(all) => all[number].clone(),
                Statistics::Batch => self.batch_moments(number, totals, channels, bias),
            };
            let Norm { weight, bias: shift, epsilon } = self.program.norms[number];
            let (weight, shift) = (self.parameters[weight.0], self.parameters[shift.0]);
            let affine = Affine { weight, bias: shift, epsilon };
            self.tape.norms[number] = Some(Normaliser::new(affine, moments, bias));
        } else if bias.is_some() || view.activation != Activation::None {
            let width = padded(channels);
            let mut shift = vec![0.0; 2 * width];
            shift[..channels].fill(1.0);
            if let Some(bias) = bias {
                shift[width..][..channels].copy_from_slice(bias);
            }
            self.tape.shifts.insert(slot, shift);
        }
    }

    /// The moments of what a batch norm sees: with the bias, which is not in the tensor.
    fn batch_moments(
        &mut self,
        number: usize,
        totals: &[Totals],
        channels: usize,
        bias: Option<&[f32]>,
    ) -> Moments {
        let (mut mean, mut variance) = Totals::moments(totals);
        mean.resize(channels, 0.0);
        variance.resize(channels, 0.0);
        if let Some(bias) = bias {
            mean.iter_mut().zip(bias).for_each(|(mean, bias)| *mean += f64::from(*bias));
        }
        let moments = Moments { mean, variance };
        let count = totals.iter().map(|part| part.count).sum();
        self.moments[number] = (moments.clone(), count);
        moments
    }

    /// Hands back what no later step reads.
    fn forget(&mut self, action: &Action) {
        for view in action.views() {
            let unread = &mut self.unread[view.slot.0];
            *unread -= 1;
            if *unread == 0 {
                self.tape.kept[view.slot.0] = None;
            }
        }
    }

    fn output(&self) -> Vec<f32> {
        let (view, program) = (self.program.output, self.program);
        let (shape, level) = (program.output(), program.level);
        let mut output = vec![0.0; shape.pixels() * shape.channels];
        match self.tape.source(view) {
            Source::Stored(x) if view.slot == Slot(0) => {
                output.copy_from_slice(&x[..shape.pixels() * shape.channels]);
            }
            Source::Stored(x) => unpad(x, shape.channels, &mut output),
            source => {
                let mut whole = self.tape.pool.take(shape.len());
                let (channels, activation) = (shape.channels, Activation::None);
                Combine { level, channels, activation }.forward(source, None, &mut whole);
                unpad(&whole, shape.channels, &mut output);
            }
        }
        output
    }
}
