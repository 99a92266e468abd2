//! Layers, models and replicas over Burn, the only crate that names it.
//!
//! ```text
//! ops       recorded networks and the loss on our kernels (dispatch, network) and on
//!           Burn's own operations (standard); what comes between them
//! layers    parameters under PyTorch's names and layouts
//! dropout   dropout with addressed masks
//! sequence  layers one after the other, as in PyTorch's nn.Sequential
//! features  what a network does to images, as a model writes it
//! recording what was written, and which way it is run
//! network   a Network: one forward pass, with a Pass for what batch norm sees
//! names     Network <-> hwa_core::Weights
//! sgd       PyTorch's SGD
//! replica   Network + Sgd = BurnReplica: hwa_train::Replica
//! zoo       models by name
//! adapt     weights of other programs, made fit for a network
//! ```
//!
//! A module of one's own becomes a replica by its forward pass:
//! `impl Network for MyModule`, then [`BurnReplica::new`].

mod adapt;
mod arithmetic;
mod dropout;
mod error;
mod features;
mod imagenet_resnet;
mod init;
pub mod layers;
mod mobilenet;
pub mod names;
mod network;
pub mod ops;
mod pass;
mod recording;
mod replica;
mod resnet;
mod score;
mod sequence;
mod sgd;
mod shufflenet;
mod vgg;
mod zoo;

pub use adapt::{Adapted, Head, adapt};
pub use arithmetic::arithmetic;
pub use error::NnError;
pub use features::{Features, Windows};
pub use hwa_kernels::Precision;
pub use imagenet_resnet::ImageNetResNet;
pub use init::Init;
pub use mobilenet::MobileNetV2;
pub use network::{ConvNet, Network};
pub use pass::{Mode, Pass};
pub use replica::{BurnReplica, Task};
pub use resnet::ResNet;
pub use sequence::{Layer, Sequence};
pub use sgd::{Sgd, SgdConfig};
pub use shufflenet::ShuffleNetV2;
pub use vgg::{Vgg16, Vgg16Bn};
pub use zoo::{Cost, Model, ModelSpec, Origin};
