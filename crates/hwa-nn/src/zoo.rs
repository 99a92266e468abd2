//! The models that can be asked for by name, and what they cost.

use std::fmt;
use std::str::FromStr;

use burn::tensor::Device;
use hwa_core::Role;
use hwa_train::Replica;

use crate::error::NnError;
use crate::init::Init;
use crate::names;
use crate::replica::{BurnReplica, Task};
use crate::resnet::ResNet;
use crate::sgd::SgdConfig;

/// The depths that are usual; any `6n + 2` up to the paper's 1202 can be built.
const DEPTHS: [usize; 6] = [8, 20, 32, 44, 56, 110];
const DEEPEST: usize = 1202;

/// A model of the zoo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelSpec {
    /// A ResNet for small images.
    ResNet {
        /// Blocks per stage: depth `6 * blocks + 2`.
        blocks: usize,
    },
}

/// What a model costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Learned values.
    pub parameters: u64,
    /// Multiply-adds of one image's forward pass.
    pub multiply_adds: u64,
}

/// Where a model's initial weights come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The seed of the run.
    pub seed: u64,
    /// The number of the replica.
    pub replica: u32,
}

impl ModelSpec {
    /// The usual models.
    pub fn all() -> Vec<Self> {
        DEPTHS.iter().map(|depth| Self::ResNet { blocks: (depth - 2) / 6 }).collect()
    }

    /// Counts parameters and multiply-adds, on a model built for the purpose.
    pub fn cost(&self, task: Task) -> Result<Cost, NnError> {
        let network = self.network(task, Origin { seed: 0, replica: 0 })?;
        let parameters = names::export(&network)?.only(Role::Parameter).num_elements() as u64;
        Ok(Cost { parameters, multiply_adds: network.multiply_adds(task.images) })
    }

    /// A replica with initial weights, on the CPU.
    pub fn build(
        &self,
        task: Task,
        origin: Origin,
        config: SgdConfig,
    ) -> Result<Box<dyn Replica>, NnError> {
        Ok(Box::new(BurnReplica::new(self.network(task, origin)?, task, config)?))
    }

    fn network(&self, task: Task, origin: Origin) -> Result<ResNet, NnError> {
        task.validate()?;
        let mut init = Init::new(origin.seed, origin.replica, &Device::flex());
        let Self::ResNet { blocks } = *self;
        ResNet::new(blocks, task.images.channels, task.classes, &mut init)
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResNet { blocks } => write!(f, "resnet{}", 6 * blocks + 2),
        }
    }
}

impl FromStr for ModelSpec {
    type Err = NnError;

    fn from_str(name: &str) -> Result<Self, NnError> {
        let depth = name.strip_prefix("resnet").and_then(|depth| depth.parse::<usize>().ok());
        match depth {
            Some(depth) if ours(depth) && name == format!("resnet{depth}") => {
                Ok(Self::ResNet { blocks: (depth - 2) / 6 })
            }
            _ => {
                let known: Vec<String> = Self::all().iter().map(Self::to_string).collect();
                Err(NnError::UnknownModel { name: name.to_owned(), known: known.join(", ") })
            }
        }
    }
}

/// Depths of torchvision's ResNets, which are other networks than ours.
const TORCHVISION: [usize; 5] = [18, 34, 50, 101, 152];

fn ours(depth: usize) -> bool {
    depth % 6 == 2 && (8..=DEEPEST).contains(&depth) && !TORCHVISION.contains(&depth)
}

#[cfg(test)]
mod tests {
    use hwa_data::ImageShape;

    use super::*;

    fn cifar(classes: usize) -> Task {
        Task { images: ImageShape { height: 32, width: 32, channels: 3 }, classes }
    }

    #[test]
    fn names_are_read_and_written() {
        for name in ["resnet8", "resnet14", "resnet20", "resnet110"] {
            assert_eq!(name.parse::<ModelSpec>().unwrap().to_string(), name);
        }
        for name in [
            "resnet18",
            "resnet2",
            "resnet",
            "vgg16",
            "resnet50",
            "resnet152",
            "resnet020",
            "resnet6000002",
        ] {
            let error = name.parse::<ModelSpec>().unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("resnet20, resnet32"), "{error}");
        }
    }

    #[test]
    fn costs_are_those_of_the_paper() {
        // He and others, table 6: 0.27 M for depth 20, 1.7 M for 110. By hand for depth 20:
        // convolutions 432 + 6 * 2304 + (4608 + 5 * 9216) + (18432 + 5 * 36864) = 267,696,
        // batch norm 2 * (7 * 16 + 6 * 32 + 6 * 64) = 1,376, linear 640 + 10.
        let cost = |name: &str| name.parse::<ModelSpec>().unwrap().cost(cifar(10)).unwrap();
        assert_eq!(cost("resnet20").parameters, 269_722);
        // 1024 * (432 + 6 * 2304) + 256 * (4608 + 5 * 9216) + 64 * (18432 + 5 * 36864) + 640
        assert_eq!(cost("resnet20").multiply_adds, 40_551_040);
        assert_eq!(cost("resnet110").parameters, 1_727_962);
    }

    #[test]
    fn a_model_needs_pixels_classes_and_blocks() {
        let error = "resnet8".parse::<ModelSpec>().unwrap().cost(cifar(0)).unwrap_err();
        assert_eq!(error.to_string(), "number of classes is 0, expected at least 1");
        let error = ModelSpec::ResNet { blocks: 0 }.cost(cifar(10)).unwrap_err();
        assert_eq!(error.to_string(), "number of blocks is 0, expected at least 1");
    }
}
