//! The steps in which a graph is run.

use std::ops::Range;

use super::profile::Clock;
use super::{Graph, Node, Operation, Parameter, Windows};
use crate::conv::{ConvError, Convolution, Layout, Precision};
use crate::pool;
use crate::read::Activation;
use crate::shape::Shape;
use crate::simd::Level;

/// A tensor that is kept in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Slot(pub usize);

/// What a step reads: a stored tensor, and what is done to it on the way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct View {
    pub slot: Slot,
    /// The batch norm, by its number.
    pub norm: Option<usize>,
    /// The bias of the convolution that made it.
    pub bias: Option<Parameter>,
    pub activation: Activation,
}

impl View {
    pub(super) fn plain(slot: Slot) -> Self {
        Self { slot, norm: None, bias: None, activation: Activation::None }
    }

    fn is_plain(&self) -> bool {
        *self == Self::plain(self.slot)
    }
}

/// A batch norm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Norm {
    pub weight: Parameter,
    pub bias: Parameter,
    pub epsilon: f64,
}

/// What is done to make a tensor that is kept.
#[derive(Debug, Clone)]
pub(super) enum Action {
    Convolution {
        x: View,
        weight: Parameter,
        convolution: Convolution,
    },
    /// `activation(a + b)`.
    Combine {
        a: View,
        b: Option<View>,
        activation: Activation,
    },
    Subsample {
        x: View,
        stride: usize,
    },
    MaxPool {
        x: View,
        windows: pool::Windows,
    },
    AveragePool {
        x: View,
        windows: pool::Windows,
    },
    Slice {
        x: View,
        channels: Range<usize>,
    },
    Concat {
        a: View,
        b: View,
        groups: usize,
    },
    GlobalAverage {
        x: View,
    },
}

impl Action {
    /// What is read.
    pub(super) fn views(&self) -> Vec<View> {
        match *self {
            Self::Combine { a, b, .. } => [Some(a), b].into_iter().flatten().collect(),
            Self::Concat { a, b, .. } => vec![a, b],
            Self::Convolution { x, .. }
            | Self::Subsample { x, .. }
            | Self::MaxPool { x, .. }
            | Self::AveragePool { x, .. }
            | Self::Slice { x, .. }
            | Self::GlobalAverage { x } => vec![x],
        }
    }
}

/// A step: makes the tensor of a slot.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub slot: Slot,
    pub action: Action,
}

impl Step {
    /// In a run forward.
    pub(super) fn multiply_adds(&self) -> u64 {
        match &self.action {
            Action::Convolution { convolution, .. } => {
                convolution.output().pixels() as u64 * convolution.weights_len() as u64
            }
            _ => 0,
        }
    }
}

/// What is known of a tensor that is kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub shape: Shape,
    /// How everything that reads it sees it.
    pub view: View,
    /// Steps that read it.
    pub readers: usize,
}

/// A graph that is planned for images of one shape.
#[derive(Debug)]
pub struct Program {
    pub(super) level: Level,
    pub(super) input: Shape,
    pub(super) steps: Vec<Step>,
    pub(super) kept: Vec<Kept>,
    pub(super) norms: Vec<Norm>,
    pub(super) parameters: usize,
    pub(super) clock: Clock,
    /// What the network gives.
    pub(super) output: View,
    limit: Option<Limit>,
}

/// What there is no kernel for, although the graph is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// A window that is too large for max pooling, which counts its pixels in one byte.
    #[error("max pooling has a window of {kernel}, the kernels have at most {MAX_WINDOW}")]
    MaxPool {
        /// Rows and columns of the window.
        kernel: usize,
    },
}

/// Rows and columns of the largest window of max pooling.
const MAX_WINDOW: usize = 16;

/// A graph that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// A convolution does not fit.
    #[error(transparent)]
    Convolution(#[from] ConvError),
    /// Two tensors that are added differ.
    #[error("tensors of shapes {a:?} and {b:?} cannot be added")]
    Shapes {
        /// One.
        a: Shape,
        /// The other.
        b: Shape,
    },
    /// Two tensors that are put together differ in more than their channels.
    #[error("tensors of shapes {a:?} and {b:?} cannot be put together")]
    Concat {
        /// One.
        a: Shape,
        /// The other.
        b: Shape,
    },
    /// Channels that are not there.
    #[error("channels {start}..{end} of {channels} cannot be taken")]
    Slice {
        /// The first.
        start: usize,
        /// The one after the last.
        end: usize,
        /// How many there are.
        channels: usize,
    },
    /// Padding that could fill a window of max pooling, so that it had no largest pixel.
    #[error(
        "max pooling with a window of {kernel} and padding {padding}: expected padding of at most half of the window"
    )]
    Padding {
        /// Rows and columns of a window.
        kernel: usize,
        /// Pixels on each side.
        padding: usize,
    },
    /// A node that is not in the graph, or comes later.
    #[error("operation {operation} reads operation {found}, expected an earlier one")]
    Order {
        /// The reader.
        operation: usize,
        /// What it reads.
        found: usize,
    },
}

impl Program {
    /// Plans the steps of a graph for images of a shape.
    ///
    /// A graph that the kernels do not cover is planned as well; its program has a
    /// [`limit`](Self::limit) and can be asked for shapes and costs, but not run.
    pub fn new(graph: &Graph, input: Shape, way: (Level, Precision)) -> Result<Self, ProgramError> {
        Self::plan(graph, Planner::new(graph, input, way))
    }

    /// As [`new`](Self::new), for a run backward that gives the gradient of the images as well.
    pub fn with_image_gradient(
        graph: &Graph,
        input: Shape,
        way: (Level, Precision),
    ) -> Result<Self, ProgramError> {
        let planner = Planner::new(graph, input, way);
        Self::plan(graph, Planner { image_gradient: true, ..planner })
    }

    fn plan(graph: &Graph, mut planner: Planner<'_>) -> Result<Self, ProgramError> {
        for (number, operation) in graph.operations.iter().enumerate() {
            if let Some(node) = operation.inputs().into_iter().find(|node| node.0 >= number) {
                return Err(ProgramError::Order { operation: number, found: node.0 });
            }
            let view = planner.plan(Node(number), operation)?;
            planner.views.push(view);
        }
        Ok(planner.finish())
    }

    /// What keeps the kernels from running it, if anything does.
    pub fn limit(&self) -> Option<Limit> {
        self.limit
    }

    /// The shape of what the network gives.
    pub fn output(&self) -> Shape {
        self.shape(self.output)
    }

    /// The multiply-adds of a run forward, in convolutions; everything else is additions and
    /// a few per cent.
    pub fn multiply_adds(&self) -> u64 {
        self.steps.iter().map(Step::multiply_adds).sum()
    }

    pub(super) fn shape(&self, view: View) -> Shape {
        self.kept[view.slot.0].shape
    }
}

struct Planner<'a> {
    graph: &'a Graph,
    program: Program,
    precision: Precision,
    /// How each node is seen.
    views: Vec<View>,
    /// How many operations read each node.
    readers: Vec<usize>,
    image_gradient: bool,
}

impl<'a> Planner<'a> {
    fn new(graph: &'a Graph, input: Shape, (level, precision): (Level, Precision)) -> Self {
        let mut readers = vec![0; graph.operations.len()];
        for node in graph.operations.iter().flat_map(Operation::inputs) {
            if let Some(readers) = readers.get_mut(node.0) {
                *readers += 1;
            }
        }
        let program = Program {
            level,
            input,
            steps: Vec::new(),
            kept: Vec::new(),
            norms: Vec::new(),
            parameters: 0,
            clock: Clock::default(),
            output: View::plain(Slot(0)),
            limit: None,
        };
        Self { graph, program, precision, views: Vec::new(), readers, image_gradient: false }
    }

    /// Plans one operation; how its result is seen.
    fn plan(&mut self, node: Node, operation: &Operation) -> Result<View, ProgramError> {
        Ok(match *operation {
            Operation::Input => {
                let images = View::plain(self.keep(self.program.input));
                // Only a copy with padding can take a gradient.
                if self.image_gradient { self.copy(images) } else { images }
            }
            Operation::Convolution { x, weight, bias, form } => {
                let x = self.views[x.0];
                let layout = if x.slot == Slot(0) { Layout::Dense } else { Layout::Padded };
                let place = (self.program.shape(x), layout);
                let convolution =
                    Convolution::new(self.program.level, form, place, self.precision)?;
                let shape = convolution.output();
                self.parameter(weight);
                let view = self.step(shape, Action::Convolution { x, weight, convolution });
                bias.into_iter().for_each(|bias| self.parameter(bias));
                self.see(View { bias, ..view })
            }
            Operation::Norm { x, weight, bias, epsilon } => {
                self.parameter(weight);
                self.parameter(bias);
                let alone = self.readers[x.0] == 1;
                let view = self.views[x.0];
                let own = view.norm.is_none() && view.activation == Activation::None && alone;
                let view = if own && view.slot != Slot(0) { view } else { self.copy(view) };
                self.program.norms.push(Norm { weight, bias, epsilon });
                self.see(View { norm: Some(self.program.norms.len() - 1), ..view })
            }
            Operation::Activation { x, activation } => {
                let alone = self.readers[x.0] == 1;
                let view = self.views[x.0];
                let own = view.activation == Activation::None && alone && view.slot != Slot(0);
                match self.sum_of(view).filter(|_| own && view.is_plain()) {
                    Some(sum) => {
                        *sum = activation;
                        view
                    }
                    None if own => self.see(View { activation, ..view }),
                    None => {
                        let view = self.copy(view);
                        self.see(View { activation, ..view })
                    }
                }
            }
            Operation::Add { a, b } => {
                let (a, b) = (self.views[a.0], self.views[b.0]);
                let (shape, other) = (self.program.shape(a), self.program.shape(b));
                if shape != other {
                    return Err(ProgramError::Shapes { a: shape, b: other });
                }
                let (a, b) = (self.padded(a), self.padded(b));
                self.step(shape, Action::Combine { a, b: Some(b), activation: Activation::None })
            }
            Operation::Subsample { x, stride, channels } => {
                let x = self.padded(self.views[x.0]);
                let from = self.program.shape(x);
                let stride = stride.max(1);
                let shape = Shape {
                    height: from.height.div_ceil(stride),
                    width: from.width.div_ceil(stride),
                    channels: channels.max(from.channels),
                    ..from
                };
                self.step(shape, Action::Subsample { x, stride })
            }
            Operation::MaxPool { x, windows } => {
                let (x, windows) = self.windows(x, windows)?;
                let (kernel, padding) = (windows.kernel[0], windows.padding);
                if 2 * padding > kernel {
                    return Err(ProgramError::Padding { kernel, padding });
                }
                if kernel > MAX_WINDOW {
                    self.program.limit.get_or_insert(Limit::MaxPool { kernel });
                }
                self.step(windows.output(), Action::MaxPool { x, windows })
            }
            Operation::AveragePool { x, windows } => {
                let (x, windows) = self.windows(x, windows)?;
                self.step(windows.output(), Action::AveragePool { x, windows })
            }
            Operation::Slice { x, start, end } => {
                let x = self.padded(self.views[x.0]);
                let from = self.program.shape(x);
                if start >= end || end > from.channels {
                    return Err(ProgramError::Slice { start, end, channels: from.channels });
                }
                let shape = Shape { channels: end - start, ..from };
                self.step(shape, Action::Slice { x, channels: start..end })
            }
            Operation::Concat { a, b, groups } => {
                let (a, b) = (self.padded(self.views[a.0]), self.padded(self.views[b.0]));
                let (first, second) = (self.program.shape(a), self.program.shape(b));
                let channels = first.channels + second.channels;
                if (Shape { channels: 0, ..first }) != (Shape { channels: 0, ..second }) {
                    return Err(ProgramError::Concat { a: first, b: second });
                }
                if groups == 0 || channels % groups != 0 {
                    return Err(ConvError::Groups { what: "shuffled", channels, groups }.into());
                }
                self.step(Shape { channels, ..first }, Action::Concat { a, b, groups })
            }
            Operation::GlobalAverage { x } => {
                let x = self.padded(self.views[x.0]);
                let shape = Shape { height: 1, width: 1, ..self.program.shape(x) };
                self.step(shape, Action::GlobalAverage { x })
            }
        })
        .inspect(|_| debug_assert!(node.0 == self.views.len()))
    }

    fn windows(
        &mut self,
        x: Node,
        Windows { kernel, stride, padding }: Windows,
    ) -> Result<(View, pool::Windows), ProgramError> {
        let x = self.padded(self.views[x.0]);
        let input = self.program.shape(x);
        for (what, number) in [("window", kernel), ("stride of a window", stride)] {
            if number == 0 {
                return Err(ConvError::Zero { what }.into());
            }
        }
        let kernel = [kernel, kernel];
        if input.height.min(input.width) + 2 * padding < kernel[0] {
            let image = [input.height, input.width];
            return Err(ConvError::Size { kernel, image, padding }.into());
        }
        Ok((x, pool::Windows { kernel, stride, padding, input }))
    }

    fn parameter(&mut self, Parameter(number): Parameter) {
        self.program.parameters = self.program.parameters.max(number + 1);
    }

    fn keep(&mut self, shape: Shape) -> Slot {
        let slot = Slot(self.program.kept.len());
        self.program.kept.push(Kept { shape, view: View::plain(slot), readers: 0 });
        slot
    }

    fn step(&mut self, shape: Shape, action: Action) -> View {
        for view in action.views() {
            self.program.kept[view.slot.0].readers += 1;
        }
        let slot = self.keep(shape);
        self.program.steps.push(Step { slot, action });
        View::plain(slot)
    }

    /// From now on everything sees the tensor in this way.
    fn see(&mut self, view: View) -> View {
        self.program.kept[view.slot.0].view = view;
        view
    }

    /// A tensor of its own of what is seen, for readers that see it in different ways.
    fn copy(&mut self, view: View) -> View {
        let shape = self.program.shape(view);
        self.step(shape, Action::Combine { a: view, b: None, activation: Activation::None })
    }

    /// The input's channels are not padded, as only convolutions can read them.
    fn padded(&mut self, view: View) -> View {
        if view.slot == Slot(0) { self.copy(view) } else { view }
    }

    /// The activation of the sum that made a tensor.
    fn sum_of(&mut self, view: View) -> Option<&mut Activation> {
        match self.program.steps.last_mut() {
            // A copy of the images has another kernel, which does not activate.
            Some(Step { slot, action: Action::Combine { b: Some(_), activation, .. } })
                if *slot == view.slot && *activation == Activation::None =>
            {
                Some(activation)
            }
            _ => None,
        }
    }

    fn finish(mut self) -> Program {
        let last = self.graph.operations.len() - 1;
        let output = self.views[last];
        self.program.kept[output.slot.0].readers += 1;
        self.program.output = output;
        self.program
    }
}
