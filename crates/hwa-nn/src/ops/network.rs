//! A recorded network as one operation on Flex: tensors in, tensors out, and the
//! kernels of `hwa-kernels` between.

use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::TensorData;
use hwa_kernels::graph::{Program, Statistics, Tape};
use hwa_kernels::{Moments, Pool, Shape};

/// What a network does, apart from its tensors.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub program: Arc<Program>,
    /// The length of each parameter; they come one after the other.
    pub sizes: Arc<[usize]>,
    /// The statistics to normalise by; without, those of the batch.
    pub given: Option<Arc<Vec<Moments>>>,
    /// Gets what the batch norms saw, and in how many values.
    pub seen: Arc<Mutex<Vec<(Moments, usize)>>>,
    pub pool: Pool,
}

impl Call {
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

/// A run of a network, with what the way back needs.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    call: Call,
    images: FloatTensor<Flex>,
    parameters: FloatTensor<Flex>,
    tape: Arc<Mutex<Option<Tape>>>,
}

impl Ran {
    /// A run that has yet to begin.
    pub(crate) fn new(
        call: Call,
        images: FloatTensor<Flex>,
        parameters: FloatTensor<Flex>,
    ) -> Self {
        let (images, parameters) = (images.to_contiguous(), parameters.to_contiguous());
        Self { call, images, parameters, tape: Arc::default() }
    }

    /// Runs forward.
    pub(crate) fn forward(&self) -> FloatTensor<Flex> {
        self.run(false).0
    }

    /// Runs forward, and remembers what backward needs.
    pub(crate) fn remember(mut self) -> (FloatTensor<Flex>, Self) {
        let (output, tape) = self.run(true);
        self.tape = Arc::new(Mutex::new(tape));
        (output, self)
    }

    fn run(&self, remember: bool) -> (FloatTensor<Flex>, Option<Tape>) {
        let Call { program, given, seen, pool, .. } = &self.call;
        let parameters = self.call.parameters(numbers(&self.parameters));
        let statistics = match given {
            Some(given) => Statistics::Given(given),
            None => Statistics::Batch,
        };
        let images = numbers(&self.images);
        let found = program.forward(pool, images, &parameters, statistics, remember);
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = found.moments;
        let Shape { images, height, width, channels } = program.output();
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
            Some(tape) => self.call.program.backward(tape, &parameters, numbers(&gradient)),
            None => unreachable!("a run that is to be remembered gives a tape"),
        };
        let mut flat = gradients.parameters;
        // A network without parameters has one number that nobody reads.
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
