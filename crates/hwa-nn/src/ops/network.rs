//! A recorded network as one operation on Flex: tensors in, tensors out, and the
//! kernels of `hwa-kernels` between.

use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::TensorData;
use hwa_kernels::graph::{Gradients, Graph, Program, Statistics, Tape};
use hwa_kernels::simd::Level;
use hwa_kernels::{Moments, Pool, Precision, Shape};

/// What a network does, apart from its tensors.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub graph: Arc<Graph>,
    /// The length of each parameter; they come one after the other.
    pub sizes: Arc<[usize]>,
    /// The statistics to normalise by; without, those of the batch.
    pub given: Option<Arc<Vec<Moments>>>,
    /// Gets what the batch norms saw, and in how many values.
    pub seen: Arc<Mutex<Vec<(Moments, usize)>>>,
    pub pool: Pool,
    pub precision: Precision,
}

/// A run forward, for the way back.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    call: Call,
    program: Arc<Program>,
    images: FloatTensor<Flex>,
    parameters: FloatTensor<Flex>,
    tape: Arc<Mutex<Option<Tape>>>,
}

impl Call {
    /// Runs forward; `way_back` says what for: nothing, parameters, or images as well.
    pub(crate) fn forward(
        self,
        images: FloatTensor<Flex>,
        parameters: FloatTensor<Flex>,
        way_back: WayBack,
    ) -> (FloatTensor<Flex>, Ran) {
        let (images, parameters) = (images.to_contiguous(), parameters.to_contiguous());
        let [n, height, width, channels] = images.shape().dims();
        let shape = Shape { images: n, height, width, channels };
        let program = Arc::new(self.program(shape, way_back));
        let remember = way_back != WayBack::None;
        let mut ran = Ran { call: self, program, images, parameters, tape: Arc::default() };
        let (output, tape) = ran.run(remember);
        ran.tape = Arc::new(Mutex::new(tape));
        (output, ran)
    }

    #[allow(clippy::panic)] // As Burn's own operations do when shapes do not fit.
    fn program(&self, shape: Shape, way_back: WayBack) -> Program {
        let level = Level::chosen().unwrap_or(Level::best());
        let way = (level, self.precision);
        let program = match way_back {
            WayBack::Images => Program::with_image_gradient(&self.graph, shape, way),
            WayBack::None | WayBack::Parameters => Program::new(&self.graph, shape, way),
        };
        program.unwrap_or_else(|error| panic!("the network cannot be run: {error}"))
    }

    fn parameters<'a>(&self, mut flat: &'a [f32]) -> Vec<&'a [f32]> {
        let mut parameters = Vec::with_capacity(self.sizes.len());
        for &size in &*self.sizes {
            let (parameter, rest) = flat.split_at(size);
            parameters.push(parameter);
            flat = rest;
        }
        parameters
    }
}

/// What a run forward has to remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WayBack {
    /// There is none.
    None,
    /// For the gradient of the parameters.
    Parameters,
    /// For the gradient of the images as well.
    Images,
}

impl Ran {
    fn run(&self, remember: bool) -> (FloatTensor<Flex>, Option<Tape>) {
        let parameters = self.call.parameters(numbers(&self.parameters));
        let statistics = match &self.call.given {
            Some(given) => Statistics::Given(given),
            None => Statistics::Batch,
        };
        let images = numbers(&self.images);
        let pool = &self.call.pool;
        let found = self.program.forward(pool, images, &parameters, statistics, remember);
        *self.call.seen.lock().unwrap_or_else(PoisonError::into_inner) = found.moments;
        let Shape { images, height, width, channels } = self.program.output();
        let output = TensorData::new(found.output, [images, height, width, channels]);
        (tensor(output), found.tape)
    }

    /// The gradients of images, if they were planned for, and of all parameters one after the other.
    pub(crate) fn backward(
        self,
        gradient: FloatTensor<Flex>,
    ) -> (Option<FloatTensor<Flex>>, FloatTensor<Flex>) {
        let kept = self.tape.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A second way back from one run forward: the first has used up what it remembered.
        let tape = kept.or_else(|| self.run(true).1);
        let parameters = self.call.parameters(numbers(&self.parameters));
        let gradient = gradient.to_contiguous();
        let gradients = match tape {
            Some(tape) => self.program.backward(tape, &parameters, numbers(&gradient)),
            None => Gradients { parameters: Vec::new(), images: None },
        };
        let mut flat = gradients.parameters.concat();
        flat.resize(self.parameters.shape().num_elements(), 0.0);
        let flat = TensorData::new(flat, self.parameters.shape());
        let images = gradients.images.map(|images| TensorData::new(images, self.images.shape()));
        (images.map(tensor), tensor(flat))
    }
}

fn numbers(tensor: &FloatTensor<Flex>) -> &[f32] {
    tensor.as_slice::<f32>().unwrap_or_default()
}

fn tensor(data: TensorData) -> FloatTensor<Flex> {
    Flex::float_from_data(data, &Default::default())
}
