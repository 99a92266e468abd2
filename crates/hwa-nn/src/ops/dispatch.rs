//! The way from Burn's tensors to the kernels: an extension of its CPU backend.
//!
//! Burn chooses the backend at run time; its `backend_extension` macro routes the
//! methods of [`Operations`] to the backend of the tensors, through autodiff where
//! that is on. Only Flex has the kernels: what is on another backend does not get
//! here (see `standard` and `loss`).

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Flex, backend_extension};

use super::loss;
use super::network::{Call, Ran};

/// What a backend does with kernels of our own.
#[backend_extension(Autodiff, Flex)]
pub(crate) trait Operations: Backend {
    fn run_network(
        images: FloatTensor<Self>,
        parameters: FloatTensor<Self>,
        call: Call,
    ) -> FloatTensor<Self>;

    fn cross_entropy(scores: FloatTensor<Self>, labels: Vec<u32>) -> FloatTensor<Self>;
}

impl Operations for Flex {
    fn run_network(
        images: FloatTensor<Self>,
        parameters: FloatTensor<Self>,
        call: Call,
    ) -> FloatTensor<Self> {
        Ran::new(call, images, parameters).forward()
    }

    fn cross_entropy(scores: FloatTensor<Self>, labels: Vec<u32>) -> FloatTensor<Self> {
        loss::on_flex(scores, &labels).0
    }
}

impl<C: CheckpointStrategy> Operations for Autodiff<Flex, C> {
    fn run_network(
        images: FloatTensor<Self>,
        parameters: FloatTensor<Self>,
        call: Call,
    ) -> FloatTensor<Self> {
        let nodes = [images.node(), parameters.node()];
        let ran = Ran::new(call, images.into_primitive(), parameters.into_primitive());
        match NetworkBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (output, ran) = ran.remember();
                prep.finish(ran, output)
            }
            OpsKind::UnTracked(prep) => prep.finish(ran.forward()),
        }
    }

    fn cross_entropy(scores: FloatTensor<Self>, labels: Vec<u32>) -> FloatTensor<Self> {
        let nodes = [scores.node()];
        let (value, gradient) = loss::on_flex(scores.into_primitive(), &labels);
        match CrossEntropyBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(gradient, value),
            OpsKind::UnTracked(prep) => prep.finish(value),
        }
    }
}

#[derive(Debug)]
struct NetworkBackward;

impl Backward<Flex, 2> for NetworkBackward {
    type State = Ran;

    fn backward(self, ops: Ops<Ran, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [images_node, parameters_node] = ops.parents;
        let gradient = grads.consume::<Flex>(&ops.node);
        let (images, parameters) = ops.state.backward(gradient);
        if let (Some(node), Some(images)) = (images_node, images) {
            grads.register::<Flex>(node.id, images);
        }
        if let Some(node) = parameters_node {
            grads.register::<Flex>(node.id, parameters);
        }
    }
}

#[derive(Debug)]
struct CrossEntropyBackward;

impl Backward<Flex, 1> for CrossEntropyBackward {
    /// The gradient of the scores if that of the loss is one.
    type State = FloatTensor<Flex>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let one = ops.state;
        unary::<Flex, _>(ops.parents, ops.node, grads, |loss| {
            Flex::float_mul(one, loss.reshape([1, 1].into()))
        });
    }
}
