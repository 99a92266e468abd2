//! A graph, backward.
//!
//! The gradient of a tensor is complete when all steps that read it have added
//! theirs. The last of them finishes it in the cache: applies the gate of the activation
//! with which the tensor is seen, and sums what its batch norm needs. A sum hands its
//! gradient on to both sides without a copy.

use std::sync::Arc;

use super::Parameter;
use super::forward::Tape;
use super::plan::{Action, Program, Slot, Step, View};
use super::profile::Way;
use crate::combine::{Combine, finish_only};
use crate::finish::{Finish, Gate, Sums, Totals};
use crate::memory::Buffer;
use crate::parallel;
use crate::pool::{AveragePool, GlobalAverage, MaxPool};
use crate::read::{Activation, Source};
use crate::rearrange::{Concat, Slice, Subsample, Target, pad, unpad};

/// What a run backward gives.
#[derive(Debug)]
pub struct Gradients {
    /// Of all parameters, one after the other; zeros where the output does not depend on one.
    pub parameters: Vec<f32>,
    /// Of the images, without padding, if the program was planned for it.
    pub images: Option<Vec<f32>>,
}

/// The gradient of a tensor, as it comes together.
#[derive(Default)]
struct Arriving {
    /// Readers that have yet to add theirs.
    missing: usize,
    /// What came so far.
    so_far: Option<Arc<Buffer>>,
    /// Sums that were gathered for it elsewhere.
    totals: Vec<Totals>,
    /// The whole of it, with respect to how the tensor is seen before its activation.
    whole: Option<Arc<Buffer>>,
    /// Of each padded channel, if it is seen through a batch norm: see [`Source::Gradient`].
    coefficients: Option<Vec<f32>>,
}

impl Program {
    /// Runs the network backward from the gradient of its output, without padding.
    ///
    /// # Panics
    ///
    /// If the gradient does not have the length of the output, or the tape is of another
    /// program.
    pub fn backward(&self, tape: Tape, parameters: &[&[f32]], gradient: &[f32]) -> Gradients {
        let shape = self.output();
        assert_eq!(gradient.len(), shape.pixels() * shape.channels, "length of the gradient");
        let mut gradients = vec![0.0; parameters.iter().map(|p| p.len()).sum()];
        let shares = parallel::split(&mut gradients, parameters.iter().map(|p| p.len()));
        let mut run = Run {
            program: self,
            parameters,
            arriving: self.expected(),
            shares: shares.into_iter().map(|numbers| Share { numbers, begun: false }).collect(),
            images: None,
            tape,
        };
        run.arrive(self.output, |whole, finish| {
            pad(gradient, shape.channels, whole);
            finish_only(self.level, shape.channels, whole, finish)
        });
        for (number, step) in self.steps.iter().enumerate().rev() {
            self.clock.time(number, Way::Backward, || run.step(step));
        }
        let images = run.images;
        Gradients { parameters: gradients, images }
    }

    /// For each tensor, that a gradient is missing from every reader that the output depends
    /// on; the others have none to give.
    fn expected(&self) -> Vec<Arriving> {
        let mut arriving: Vec<Arriving> = Vec::new();
        arriving.resize_with(self.kept.len(), Arriving::default);
        arriving[self.output.slot.0].missing = 1;
        for step in self.steps.iter().rev() {
            if arriving[step.slot.0].missing > 0 {
                step.action.views().iter().for_each(|view| arriving[view.slot.0].missing += 1);
            }
        }
        arriving
    }
}

struct Run<'a> {
    program: &'a Program,
    parameters: &'a [&'a [f32]],
    tape: Tape,
    arriving: Vec<Arriving>,
    shares: Vec<Share<'a>>,
    images: Option<Vec<f32>>,
}

/// The gradient of a parameter, which may be used more than once.
#[derive(Default)]
struct Share<'a> {
    numbers: &'a mut [f32],
    /// Whether there is something to add to.
    begun: bool,
}

impl Share<'_> {
    /// Adds what `write` writes.
    fn add_by<R>(&mut self, write: impl FnOnce(&mut [f32]) -> R) -> R {
        if !std::mem::replace(&mut self.begun, true) {
            return write(self.numbers);
        }
        let mut more = vec![0.0; self.numbers.len()];
        let result = write(&mut more);
        self.numbers.iter_mut().zip(more).for_each(|(sum, x)| *sum += x);
        result
    }
}

impl Run<'_> {
    fn step(&mut self, step: &Step) {
        let slot = step.slot;
        let Some(whole) = self.arriving[slot.0].whole.take() else { return };
        let coefficients = self.arriving[slot.0].coefficients.take();
        let (level, shape) = (self.program.level, self.program.kept[slot.0].shape);
        let copy = Combine { level, channels: shape.channels, activation: Activation::None };
        let own = self.tape.kept[slot.0].take().unwrap_or_default();
        let gradient = match &coefficients {
            // Given statistics scale: a number that is not finite must not meet a zero.
            Some(coefficients) if self.tape.given => Source::Normalised {
                x: &whole,
                coefficients: &coefficients[..2 * shape.stride()],
                activation: Activation::None,
            },
            Some(coefficients) => Source::Gradient { gradient: &whole, x: &own, coefficients },
            None => Source::Stored(&whole),
        };
        match &step.action {
            Action::Convolution { x, weight, convolution } => {
                let weights = self.parameters[weight.0];
                let mut share = std::mem::take(&mut self.shares[weight.0]);
                let part = share.add_by(|share| {
                    let weights = (weights, share);
                    if x.slot == Slot(0) {
                        convolution.backward(self.tape.source(*x), gradient, weights, None);
                        return None;
                    }
                    Some(self.part(*x, |source, input, finish| {
                        convolution.backward(source, gradient, weights, Some((input, finish)))
                    }))
                });
                self.shares[weight.0] = share;
                part.into_iter().for_each(|part| self.take_in(*x, part));
            }
            Action::Combine { a, b: None, .. } if a.slot == Slot(0) => {
                let mut images = vec![0.0; shape.pixels() * shape.channels];
                match gradient {
                    Source::Stored(whole) => unpad(whole, shape.channels, &mut images),
                    source => {
                        let mut plain = self.tape.pool.take(shape.len());
                        copy.forward(source, None, &mut plain);
                        unpad(&plain, shape.channels, &mut images);
                    }
                }
                self.images = Some(images);
            }
            Action::Combine { a, b, activation } => {
                let shared = if self.program.kept[slot.0].view == View::plain(slot) {
                    whole.clone()
                } else {
                    // Seen through a norm or an activation of its own: what is handed on is
                    // another tensor.
                    let mut plain = self.tape.pool.take(shape.len());
                    copy.forward(gradient, None, &mut plain);
                    let finish = self.sum_finish(&own, *activation, (*a, *b));
                    let totals = finish_only(level, shape.channels, &mut plain, finish);
                    self.pass_totals((*a, *b), &mut plain, totals);
                    Arc::new(plain)
                };
                for view in [Some(*a), *b].into_iter().flatten() {
                    self.hand_on(view, shared.clone());
                }
            }
            Action::Subsample { x, stride } => {
                let input = self.program.shape(*x);
                let form = Subsample { level, input, stride: *stride, channels: shape.channels };
                self.arrive(*x, |input, finish| {
                    form.backward(gradient, Target { gradient: input, finish })
                });
            }
            Action::Slice { x, channels } => {
                let (input, channels) = (self.program.shape(*x), channels.clone());
                let form = Slice { level, input, channels };
                self.arrive(*x, |input, finish| {
                    form.backward(gradient, Target { gradient: input, finish })
                });
            }
            Action::Concat { a, b, groups } => {
                let (input, others) = (self.program.shape(*a), self.program.shape(*b).channels);
                let form = Concat { level, input, others, groups: *groups };
                for (side, view) in [*a, *b].into_iter().enumerate() {
                    self.arrive(view, |input, finish| {
                        form.backward(side, gradient, Target { gradient: input, finish })
                    });
                }
            }
            Action::MaxPool { x, windows } => {
                let places = self.tape.places.remove(&slot).unwrap_or_default();
                let form = MaxPool { level, windows: *windows };
                self.arrive(*x, |input, finish| form.backward(gradient, &places, input, finish));
            }
            Action::AveragePool { x, windows } => {
                let form = AveragePool { level, windows: *windows };
                self.arrive(*x, |input, finish| form.backward(gradient, input, finish));
            }
            Action::GlobalAverage { x } => {
                let mut plain = self.tape.pool.take(shape.len());
                copy.forward(gradient, None, &mut plain);
                let mut rows = vec![0.0; shape.images * shape.channels];
                unpad(&plain, shape.channels, &mut rows);
                let form = GlobalAverage { level, input: self.program.shape(*x) };
                self.arrive(*x, |input, finish| form.backward(&rows, input, finish));
            }
        }
    }

    /// A reader of a tensor adds its part, which `part` computes and finishes.
    fn arrive(&mut self, view: View, part: impl FnOnce(&mut [f32], Finish<'_>) -> Vec<Totals>) {
        let part = self.part(view, |_, input, finish| part(input, finish));
        self.take_in(view, part);
    }

    /// The part of a reader, with what came so far: its numbers and sums.
    fn part(
        &mut self,
        view: View,
        part: impl FnOnce(Source<'_>, &mut [f32], Finish<'_>) -> Vec<Totals>,
    ) -> (Buffer, Vec<Totals>) {
        let slot = view.slot;
        let shape = self.program.kept[slot.0].shape;
        let arriving = &mut self.arriving[slot.0];
        arriving.missing -= 1;
        let (last, so_far) = (arriving.missing == 0, arriving.so_far.take());
        let mut numbers = self.tape.pool.take(shape.len());
        let finish = if last { self.finish_of(slot) } else { Finish::NOTHING };
        let finish = Finish { skip: so_far.as_deref().map(|so_far| &so_far[..]), ..finish };
        let totals = part(self.tape.source(view), &mut numbers, finish);
        (numbers, totals)
    }

    /// Takes in a reader's part.
    fn take_in(&mut self, View { slot, .. }: View, (numbers, totals): (Buffer, Vec<Totals>)) {
        if self.arriving[slot.0].missing == 0 {
            self.settle(slot, numbers, totals);
        } else {
            self.arriving[slot.0].so_far = Some(Arc::new(numbers));
        }
    }

    /// A sum hands its gradient on to one of its sides.
    fn hand_on(&mut self, view: View, shared: Arc<Buffer>) {
        let slot = view.slot;
        if self.passes_through(view) {
            self.arriving[slot.0].missing = 0;
            let totals = std::mem::take(&mut self.arriving[slot.0].totals);
            self.complete(slot, shared, &totals);
            return;
        }
        let arriving = &mut self.arriving[slot.0];
        if arriving.missing > 1 && arriving.so_far.is_none() {
            arriving.missing -= 1;
            arriving.so_far = Some(shared);
            return;
        }
        let (level, shape) = (self.program.level, self.program.kept[slot.0].shape);
        self.arrive(view, |numbers, finish| {
            numbers.copy_from_slice(&shared);
            finish_only(level, shape.channels, numbers, finish)
        });
    }

    /// Whether the gradient of a sum is the whole gradient of what was added, before
    /// its norm.
    fn passes_through(&self, view: View) -> bool {
        let alone = self.program.kept[view.slot.0].readers == 1;
        let plain = view == View::plain(view.slot);
        // A sum has an activation and sides of its own to finish for.
        let sum = plain && matches!(self.maker(view.slot), Some(Action::Combine { .. }));
        alone && !sum && view.activation == Activation::None && view.slot != Slot(0)
    }

    /// How the gradient of a tensor is finished.
    fn finish_of(&self, slot: Slot) -> Finish<'_> {
        let view = self.program.kept[slot.0].view;
        let x = self.tape.numbers(slot);
        if view == View::plain(slot) {
            return match self.maker(slot) {
                Some(&Action::Combine { a, b, activation }) => {
                    self.sum_finish(x, activation, (a, b))
                }
                _ => Finish::NOTHING,
            };
        }
        let gate = match self.tape.coefficients(view) {
            Some(coefficients) if view.activation != Activation::None => {
                Gate::Input { x, coefficients, activation: view.activation }
            }
            _ => Gate::Open,
        };
        Finish { skip: None, gate, sums: self.sums_of(view) }
    }

    /// How the gradient of `activation(a + b)`, whose values are `output`, is finished.
    fn sum_finish<'b>(
        &'b self,
        output: &'b [f32],
        activation: Activation,
        (a, b): (View, Option<View>),
    ) -> Finish<'b> {
        let gate = match activation {
            Activation::None => Gate::Open,
            activation => Gate::Output(output, activation),
        };
        let first = [Some(a), b].into_iter().flatten().find(|view| self.wants_sums(*view));
        Finish { skip: None, gate, sums: first.map_or(Sums::None, |view| self.sums_of(view)) }
    }

    /// Whether a side of a sum needs sums over the gradient that passes through to it.
    fn wants_sums(&self, view: View) -> bool {
        self.passes_through(view) && !matches!(self.sums_of(view), Sums::None)
    }

    /// What is summed over the gradient of a tensor that is seen in some way.
    fn sums_of(&self, view: View) -> Sums<'_> {
        let x = self.tape.numbers(view.slot);
        match (view.norm.and_then(|norm| self.tape.norms[norm].as_ref()), view.bias) {
            (Some(norm), _) => Sums::Products { x, mean: &norm.mean },
            (None, Some(_)) => match self.tape.shifts.get(&view.slot) {
                // The products are not used; any mean does.
                Some(shift) => Sums::Products { x, mean: &shift[shift.len() / 2..] },
                None => Sums::None,
            },
            (None, None) => Sums::None,
        }
    }

    fn maker(&self, slot: Slot) -> Option<&Action> {
        // Slot 0 is the input; each step makes the next.
        slot.0.checked_sub(1).map(|number| &self.program.steps[number].action)
    }

    /// The gradient of a tensor is whole, and was finished with `totals`.
    fn settle(&mut self, slot: Slot, mut numbers: Buffer, totals: Vec<Totals>) {
        let view = self.program.kept[slot.0].view;
        if view != View::plain(slot) {
            self.complete(slot, Arc::new(numbers), &totals);
            return;
        }
        if let Some(&Action::Combine { a, b, .. }) = self.maker(slot) {
            self.pass_totals((a, b), &mut numbers, totals);
        }
        self.complete(slot, Arc::new(numbers), &[]);
    }

    /// Gives the sides of a sum the sums that they need: `totals` are those of the first
    /// that wants any.
    fn pass_totals(
        &mut self,
        (a, b): (View, Option<View>),
        numbers: &mut [f32],
        totals: Vec<Totals>,
    ) {
        let (level, mut totals) = (self.program.level, Some(totals));
        for view in [Some(a), b]
            .into_iter()
            .flatten()
            .filter(|view| self.wants_sums(*view))
            .collect::<Vec<_>>()
        {
            let shape = self.program.shape(view);
            let own = match totals.take() {
                Some(totals) => totals,
                None => {
                    let finish = Finish { sums: self.sums_of(view), ..Finish::NOTHING };
                    finish_only(level, shape.channels, numbers, finish)
                }
            };
            self.arriving[view.slot.0].totals = own;
        }
    }

    /// The gradient of a tensor is whole: what remains are the numbers per channel.
    fn complete(&mut self, slot: Slot, whole: Arc<Buffer>, totals: &[Totals]) {
        let (view, shape) = (self.program.kept[slot.0].view, self.program.kept[slot.0].shape);
        if let Some(number) = view.norm {
            let sums = Totals::products(totals);
            let sums = (&sums.0[..], &sums.1[..]);
            let found = self.tape.norms[number].as_ref().map(|norm| match self.tape.given {
                true => norm.backward_given(sums),
                false => norm.backward(sums, shape.pixels()),
            });
            if let Some((weight, bias, coefficients)) = found {
                let norm = self.program.norms[number];
                self.add(norm.weight, &weight);
                self.add(norm.bias, &bias);
                self.arriving[slot.0].coefficients = Some(coefficients);
                if let (Some(parameter), true) = (view.bias, self.tape.given) {
                    // Given statistics do not follow the bias; those of the batch take it
                    // away again, and its gradient is zero.
                    let scale = self.tape.norms[number].as_ref().map(|norm| &norm.coefficients);
                    let gradient: Vec<f32> =
                        scale.into_iter().flatten().zip(&bias).map(|(s, b)| s * b).collect();
                    self.add(parameter, &gradient);
                }
            }
        } else if let Some(parameter) = view.bias {
            let (sums, _) = Totals::products(totals);
            let gradient: Vec<f32> = sums[..shape.channels].iter().map(|s| *s as f32).collect();
            self.add(parameter, &gradient);
        }
        self.arriving[slot.0].whole = Some(whole);
    }

    /// Adds to the gradient of a parameter.
    fn add(&mut self, Parameter(number): Parameter, gradient: &[f32]) {
        self.shares[number].add_by(|share| share.copy_from_slice(gradient));
    }
}
