//! The layers of a network, as its parameters show them.

use hwa_core::{Tensor, Weights, WeightsError};

/// A convolution, and the parameters that follow it before the next one: those of its batch
/// norm, as a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layer {
    /// The weights of the convolution: a filter for each index of the first dimension.
    pub(super) filters: String,
    /// The others, in the order of the network.
    pub(super) followers: Vec<String>,
}

/// The layers of a network whose parameters have these names, in this order. What comes before
/// the first convolution begins a layer as well.
pub(super) fn layers(names: &[String], weights: &Weights) -> Result<Vec<Layer>, WeightsError> {
    let mut layers: Vec<Layer> = Vec::new();
    for name in names {
        let tensor = weights.require(name)?;
        match layers.last_mut() {
            Some(layer) if !is_convolution(tensor) => layer.followers.push(name.clone()),
            _ => layers.push(Layer { filters: name.clone(), followers: Vec::new() }),
        }
    }
    Ok(layers)
}

/// Whether a tensor is that of a convolution: filters of channels, rows and columns.
pub(super) fn is_convolution(tensor: &Tensor) -> bool {
    tensor.shape().len() == 4
}
