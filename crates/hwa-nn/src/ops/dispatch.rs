//! The way from Burn's tensors to the kernels: one extension trait, one backward
//! pass per operation, for every backend.
//!
//! Burn chooses the backend at run time; its `backend_extension` macro routes the
//! methods of [`Operations`] to the backend of the tensors, through autodiff where
//! that is on. The macro cannot route an optional tensor, hence two batch norms.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, AutodiffBackend, Backend, Flex, backend_extension};

use super::kernels::{BatchNormInputs, BatchNormSaved, Kernels, Normalised};
use super::network::{Call, WayBack};
use super::{Activation, Convolution, Normalisation};

/// Output, batch mean and biased batch variance. Only the output is differentiable.
type NormalisedTensors<B> = (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>);

/// The operations that a backend may carry out with kernels of its own.
#[backend_extension(Autodiff, Flex)]
pub(crate) trait Operations: Backend {
    fn convolve(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        form: Convolution,
    ) -> FloatTensor<Self>;

    fn normalise(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        form: Normalisation,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    fn normalise_and_add(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        form: Normalisation,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    fn run_network(
        images: FloatTensor<Self>,
        parameters: FloatTensor<Self>,
        call: Call,
    ) -> FloatTensor<Self>;
}

impl Operations for Flex {
    fn run_network(
        images: FloatTensor<Self>,
        parameters: FloatTensor<Self>,
        call: Call,
    ) -> FloatTensor<Self> {
        call.forward(images, parameters, WayBack::None).0
    }

    fn convolve(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        form: Convolution,
    ) -> FloatTensor<Self> {
        Self::conv2d_forward(x, weight, form)
    }

    fn normalise(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        form: Normalisation,
    ) -> NormalisedTensors<Self> {
        let inputs = BatchNormInputs { x, weight, bias, residual: None };
        let Normalised { output, mean, variance } = Self::batch_norm_forward(inputs, form);
        (output, mean, variance)
    }

    fn normalise_and_add(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        form: Normalisation,
    ) -> NormalisedTensors<Self> {
        let inputs = BatchNormInputs { x, weight, bias, residual: Some(residual) };
        let Normalised { output, mean, variance } = Self::batch_norm_forward(inputs, form);
        (output, mean, variance)
    }
}

impl<B: Kernels, C: CheckpointStrategy> Operations for Autodiff<B, C> {
    fn run_network(
        images: FloatTensor<Self>,
        parameters: FloatTensor<Self>,
        call: Call,
    ) -> FloatTensor<Self> {
        let way_back = if images.is_tracked() { WayBack::Images } else { WayBack::Parameters };
        let nodes = [images.node(), parameters.node()];
        let (images, parameters) = (images.into_primitive(), parameters.into_primitive());
        match NetworkBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (output, ran) = B::network_forward(images, parameters, call, way_back);
                prep.finish(ran, output)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(B::network_forward(images, parameters, call, WayBack::None).0)
            }
        }
    }

    fn convolve(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        form: Convolution,
    ) -> FloatTensor<Self> {
        match ConvolutionBackward.prepare::<C>([x.node(), weight.node()]).compute_bound().stateful()
        {
            OpsKind::Tracked(mut prep) => {
                let saved = (prep.checkpoint(&x), prep.checkpoint(&weight), form);
                let y = B::conv2d_forward(x.into_primitive(), weight.into_primitive(), form);
                prep.finish(saved, y)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(B::conv2d_forward(x.into_primitive(), weight.into_primitive(), form))
            }
        }
    }

    fn normalise(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        form: Normalisation,
    ) -> NormalisedTensors<Self> {
        let nodes = [x.node(), weight.node(), bias.node()];
        let inputs = Inputs::<B, C> { x, weight, bias, residual: None };
        track_batch_norm::<B, C, 3>(nodes, inputs, form)
    }

    fn normalise_and_add(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        form: Normalisation,
    ) -> NormalisedTensors<Self> {
        let nodes = [x.node(), weight.node(), bias.node(), residual.node()];
        let inputs = Inputs::<B, C> { x, weight, bias, residual: Some(residual) };
        track_batch_norm::<B, C, 4>(nodes, inputs, form)
    }
}

#[derive(Debug)]
struct NetworkBackward;

impl<B: Kernels> Backward<B, 2> for NetworkBackward {
    type State = B::Ran;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let [images_node, parameters_node] = ops.parents;
        let gradient = grads.consume::<B>(&ops.node);
        let (images, parameters) = B::network_backward(ops.state, gradient);
        if let (Some(node), Some(images)) = (images_node, images) {
            grads.register::<B>(node.id, images);
        }
        if let Some(node) = parameters_node {
            grads.register::<B>(node.id, parameters);
        }
    }
}

#[derive(Debug)]
struct ConvolutionBackward;

impl<B: Kernels> Backward<B, 2> for ConvolutionBackward {
    type State = (NodeId, NodeId, Convolution);

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let [x_node, weight_node] = ops.parents;
        let gradient = grads.consume::<B>(&ops.node);
        let (x, weight, form) = ops.state;
        let x = checkpointer.retrieve_node_output::<FloatTensor<B>>(x);
        let weight = checkpointer.retrieve_node_output::<FloatTensor<B>>(weight);
        if let Some(node) = weight_node {
            let (x, weight, gradient) = (x.clone(), weight.clone(), gradient.clone());
            grads.register::<B>(node.id, B::conv2d_weight_gradient(x, weight, gradient, form));
        }
        if let Some(node) = x_node {
            grads.register::<B>(node.id, B::conv2d_input_gradient(x, weight, gradient, form));
        }
    }
}

/// Batch norm with `N` differentiable inputs: three, or four with a residual.
#[derive(Debug)]
struct BatchNormBackward<const N: usize>;

#[derive(Debug, Clone)]
struct BatchNormState<B: Backend> {
    x: NodeId,
    weight: NodeId,
    mean: FloatTensor<B>,
    variance: FloatTensor<B>,
    output: Option<FloatTensor<B>>,
    form: Normalisation,
}

impl<B: Kernels, const N: usize> Backward<B, N> for BatchNormBackward<N> {
    type State = BatchNormState<B>;

    fn backward(
        self,
        ops: Ops<Self::State, N>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let gradient = grads.consume::<B>(&ops.node);
        let state = ops.state;
        let saved = BatchNormSaved {
            x: checkpointer.retrieve_node_output(state.x),
            weight: checkpointer.retrieve_node_output(state.weight),
            mean: state.mean,
            variance: state.variance,
            output: state.output,
            residual: N == 4,
        };
        let found = B::batch_norm_backward(saved, gradient, state.form);
        let found = [Some(found.x), Some(found.weight), Some(found.bias), found.residual];
        for (node, gradient) in ops.parents.into_iter().zip(found) {
            if let (Some(node), Some(gradient)) = (node, gradient) {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

type Inputs<B, C> = BatchNormInputs<Autodiff<B, C>>;

fn track_batch_norm<B: Kernels, C: CheckpointStrategy, const N: usize>(
    nodes: [NodeGuard; N],
    inputs: Inputs<B, C>,
    form: Normalisation,
) -> NormalisedTensors<Autodiff<B, C>> {
    let forward = |inputs: Inputs<B, C>| {
        let BatchNormInputs { x, weight, bias, residual } = inputs;
        let inner = BatchNormInputs {
            x: x.into_primitive(),
            weight: weight.into_primitive(),
            bias: bias.into_primitive(),
            residual: residual.map(|r| r.into_primitive()),
        };
        B::batch_norm_forward(inner, form)
    };
    let (output, mean, variance) =
        match BatchNormBackward::<N>.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(mut prep) => {
                let (x, weight) = (prep.checkpoint(&inputs.x), prep.checkpoint(&inputs.weight));
                let Normalised { output, mean, variance } = forward(inputs);
                let state = BatchNormState {
                    x,
                    weight,
                    mean: mean.clone(),
                    variance: variance.clone(),
                    output: match form.activation {
                        Activation::None => None,
                        Activation::Relu | Activation::Relu6 => Some(output.clone()),
                    },
                    form,
                };
                (prep.finish(state, output), mean, variance)
            }
            OpsKind::UnTracked(prep) => {
                let Normalised { output, mean, variance } = forward(inputs);
                (prep.finish(output), mean, variance)
            }
        };
    (output, Autodiff::<B, C>::from_inner(mean), Autodiff::<B, C>::from_inner(variance))
}
