//! The models that can be asked for by name, and what they cost.

use std::fmt;
use std::str::FromStr;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use hwa_core::{Role, Weights, spelling};
use hwa_data::ImageShape;

use crate::error::NnError;
use crate::features::Features;
use crate::imagenet_resnet::ImageNetResNet;
use crate::init::Init;
use crate::layers::Linear;
use crate::mobilenet::MobileNetV2;
use crate::names;
use crate::network::ConvNet;
use crate::pass::Pass;
use crate::replica::{BurnReplica, Task};
use crate::resnet::ResNet;
use crate::sgd::SgdConfig;
use crate::shufflenet::ShuffleNetV2;
use crate::vgg::{Vgg16, Vgg16Bn};

/// The depths that are usual; any `6n + 2` up to the paper's 1202 can be built, but for 50 and
/// 152, which are torchvision's.
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
    /// VGG-16 for small images.
    Vgg16Cifar,
    /// MobileNetV2 for small images.
    MobileNetV2Cifar,
    /// torchvision's ResNet-18.
    ResNet18,
    /// torchvision's ResNet-50.
    ResNet50,
    /// torchvision's VGG-16 with batch norm.
    Vgg16Bn,
    /// torchvision's MobileNetV2.
    MobileNetV2,
    /// torchvision's ShuffleNetV2 of width 1.
    ShuffleNetV2,
}

/// The models that have one form only.
const OTHERS: [ModelSpec; 7] = [
    ModelSpec::Vgg16Cifar,
    ModelSpec::MobileNetV2Cifar,
    ModelSpec::ResNet18,
    ModelSpec::ResNet50,
    ModelSpec::Vgg16Bn,
    ModelSpec::MobileNetV2,
    ModelSpec::ShuffleNetV2,
];

/// A network of the zoo.
#[derive(Module, Debug)]
pub enum Model {
    /// A ResNet for small images.
    ResNet(ResNet),
    /// VGG-16 for small images.
    Vgg16(Vgg16),
    /// VGG-16 for large images.
    Vgg16Bn(Vgg16Bn),
    /// MobileNetV2 for small or for large images.
    MobileNetV2(MobileNetV2),
    /// A ResNet for large images.
    ImageNetResNet(ImageNetResNet),
    /// ShuffleNetV2.
    ShuffleNetV2(ShuffleNetV2),
}

impl Model {
    fn net(&self) -> &dyn ConvNet {
        match self {
            Self::ResNet(net) => net,
            Self::Vgg16(net) => net,
            Self::Vgg16Bn(net) => net,
            Self::MobileNetV2(net) => net,
            Self::ImageNetResNet(net) => net,
            Self::ShuffleNetV2(net) => net,
        }
    }
}

impl ConvNet for Model {
    fn features(&self, images: Features) -> Features {
        self.net().features(images)
    }

    fn embed(&self, features: &Features, pass: &mut Pass) -> Tensor<2> {
        self.net().embed(features, pass)
    }

    fn embedding_multiply_adds(&self) -> u64 {
        self.net().embedding_multiply_adds()
    }

    fn classifier(&self) -> &Linear {
        self.net().classifier()
    }

    fn smallest(&self) -> usize {
        self.net().smallest()
    }
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
        let resnets = DEPTHS.iter().map(|depth| Self::ResNet { blocks: (depth - 2) / 6 });
        resnets.chain(OTHERS).collect()
    }

    /// What it was made for: CIFAR-100's images and classes, or ImageNet's.
    pub fn usual_task(&self) -> Task {
        let (side, classes) = match self {
            Self::ResNet { .. } | Self::Vgg16Cifar | Self::MobileNetV2Cifar => (32, 100),
            Self::ResNet18
            | Self::ResNet50
            | Self::Vgg16Bn
            | Self::MobileNetV2
            | Self::ShuffleNetV2 => (224, 1000),
        };
        Task { images: ImageShape { height: side, width: side, channels: 3 }, classes }
    }

    /// The name of the layer that makes scores, before `.weight` and `.bias`: the only one
    /// that depends on the number of classes.
    pub fn head(&self) -> &'static str {
        match self {
            Self::ResNet { .. } => "linear",
            Self::Vgg16Cifar => "classifier",
            Self::MobileNetV2Cifar | Self::MobileNetV2 => "classifier.1",
            Self::Vgg16Bn => "classifier.6",
            Self::ResNet18 | Self::ResNet50 | Self::ShuffleNetV2 => "fc",
        }
    }

    /// Counts parameters and multiply-adds, on a model built for the purpose.
    pub fn cost(&self, task: Task) -> Result<Cost, NnError> {
        let network = self.blank(task)?;
        let tensors = names::tensors(&network).into_iter();
        let parameters = tensors.filter(|tensor| tensor.role == Role::Parameter);
        let parameters = parameters.map(|tensor| tensor.elements as u64).sum();
        Ok(Cost { parameters, multiply_adds: network.multiply_adds(task.images)? })
    }

    /// A replica with initial weights, on the CPU.
    pub fn build(
        &self,
        task: Task,
        origin: Origin,
        config: SgdConfig,
    ) -> Result<BurnReplica<Model>, NnError> {
        BurnReplica::new(self.network(task, origin)?, task, config)
    }

    /// A replica with given weights, on the CPU, and momentum zero: a complete model, or
    /// parameters alone, with the statistics of a model that has seen nothing.
    pub fn build_from(
        &self,
        task: Task,
        weights: &Weights,
        config: SgdConfig,
    ) -> Result<BurnReplica<Model>, NnError> {
        let blank = self.blank(task)?;
        let is_complete = weights.iter().any(|(_, tensor)| tensor.role() != Role::Parameter);
        let network = match is_complete {
            true => names::load(&blank, weights),
            false => names::load_parameters(&blank, weights),
        };
        BurnReplica::new(network.map_err(NnError::Weights)?, task, config)
    }

    /// The network with initial weights, on the CPU.
    pub fn network(&self, task: Task, origin: Origin) -> Result<Model, NnError> {
        self.drawn(task, &mut Init::new(origin.seed, origin.replica, &Device::flex()))
    }

    /// The network with zeros for weights, on the CPU: for weights that are to be loaded.
    pub fn blank(&self, task: Task) -> Result<Model, NnError> {
        self.drawn(task, &mut Init::blank(&Device::flex()))
    }

    fn drawn(&self, task: Task, init: &mut Init) -> Result<Model, NnError> {
        task.validate()?;
        let (channels, classes) = (task.images.channels, task.classes);
        Ok(match *self {
            Self::ResNet { blocks } => Model::ResNet(ResNet::new(blocks, channels, classes, init)?),
            Self::Vgg16Cifar => Model::Vgg16(Vgg16::new(channels, classes, init)?),
            Self::MobileNetV2Cifar => {
                Model::MobileNetV2(MobileNetV2::cifar(channels, classes, init)?)
            }
            Self::ResNet18 => {
                Model::ImageNetResNet(ImageNetResNet::resnet18(channels, classes, init)?)
            }
            Self::ResNet50 => {
                Model::ImageNetResNet(ImageNetResNet::resnet50(channels, classes, init)?)
            }
            Self::Vgg16Bn => Model::Vgg16Bn(Vgg16Bn::new(channels, classes, init)?),
            Self::MobileNetV2 => {
                Model::MobileNetV2(MobileNetV2::imagenet(channels, classes, init)?)
            }
            Self::ShuffleNetV2 => Model::ShuffleNetV2(ShuffleNetV2::new(channels, classes, init)?),
        })
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResNet { blocks } => write!(f, "resnet{}", 6 * blocks + 2),
            Self::Vgg16Cifar => f.write_str("vgg16_cifar"),
            Self::MobileNetV2Cifar => f.write_str("mobilenet_v2_cifar"),
            Self::ResNet18 => f.write_str("resnet18"),
            Self::ResNet50 => f.write_str("resnet50"),
            Self::Vgg16Bn => f.write_str("vgg16_bn"),
            Self::MobileNetV2 => f.write_str("mobilenet_v2"),
            Self::ShuffleNetV2 => f.write_str("shufflenet_v2_x1_0"),
        }
    }
}

impl FromStr for ModelSpec {
    type Err = NnError;

    fn from_str(name: &str) -> Result<Self, NnError> {
        let named = OTHERS.into_iter().find(|spec| spec.to_string() == name);
        named.or_else(|| small_resnet(name)).ok_or_else(|| {
            let known: Vec<String> = Self::all().iter().map(Self::to_string).collect();
            // Whoever asks for a depth means that depth.
            let depth =
                name.strip_prefix("resnet").is_some_and(|depth| depth.parse::<u64>().is_ok());
            let near = spelling::nearest(name, known.iter().map(String::as_str));
            let near = near.filter(|_| !depth).map(str::to_owned);
            NnError::UnknownModel { name: name.to_owned(), near, known: known.join(", ") }
        })
    }
}

/// Depths of torchvision's ResNets, which are other networks than those for small images.
const TORCHVISION: [usize; 5] = [18, 34, 50, 101, 152];

fn small_resnet(name: &str) -> Option<ModelSpec> {
    let depth: usize = name.strip_prefix("resnet")?.parse().ok()?;
    let there = depth % 6 == 2 && (8..=DEEPEST).contains(&depth) && !TORCHVISION.contains(&depth);
    let spec = ModelSpec::ResNet { blocks: depth.checked_sub(2)? / 6 };
    // Not `resnet020`.
    (there && spec.to_string() == name).then_some(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cifar(classes: usize) -> Task {
        Task { images: ImageShape { height: 32, width: 32, channels: 3 }, classes }
    }

    #[test]
    fn names_are_read_and_written() {
        for name in ["resnet8", "resnet14", "resnet20", "resnet110"] {
            assert_eq!(name.parse::<ModelSpec>().unwrap().to_string(), name);
        }
        for spec in ModelSpec::all() {
            assert_eq!(spec.to_string().parse::<ModelSpec>().unwrap(), spec);
        }
        for name in
            ["resnet2", "resnet", "vgg16", "resnet34", "resnet152", "resnet020", "resnet6000002"]
        {
            let error = name.parse::<ModelSpec>().unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("resnet20, resnet32"), "{error}");
        }
    }

    #[test]
    fn names_that_were_probably_meant_are_suggested() {
        let suggested = |name: &str| match name.parse::<ModelSpec>() {
            Err(NnError::UnknownModel { near, .. }) => near,
            other => panic!("{other:?}"),
        };
        assert_eq!(suggested("mobilenetv2").as_deref(), Some("mobilenet_v2"));
        assert_eq!(suggested("ResNet-20").as_deref(), Some("resnet20"));
        assert_eq!(suggested("resnet34"), None);
        let error = "vgg16-bn".parse::<ModelSpec>().unwrap_err().to_string();
        assert!(error.starts_with("there is no model `vgg16-bn`; did you mean `vgg16_bn`?"));
    }

    #[test]
    fn the_head_is_the_name_of_the_layer_that_makes_scores() {
        for spec in ModelSpec::all() {
            let network = spec.blank(cifar(10)).unwrap();
            let tensors = names::tensors(&network);
            let id = network.classifier().weight.id;
            let found = tensors.iter().find(|tensor| tensor.id == id).unwrap();
            assert_eq!(found.name, format!("{}.weight", spec.head()), "{spec}");
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
    fn costs_of_the_other_networks_are_those_that_are_known() {
        let cost = |name: &str, classes| {
            let spec = name.parse::<ModelSpec>().unwrap();
            let cost = spec.cost(Task { classes, ..spec.usual_task() }).unwrap();
            (cost.parameters, cost.multiply_adds)
        };
        // Counted in PyTorch, with a hook on every convolution and linear layer. torchvision's
        // own tables: 11.69 M and 1.81 G; 25.56 M and 4.09 G; 138.37 M and 15.47 G; 3.50 M and
        // 0.30 G; 2.28 M and 0.14 G.
        assert_eq!(cost("vgg16_cifar", 10), (14_728_266, 313_201_664));
        assert_eq!(cost("mobilenet_v2_cifar", 10), (2_236_682, 87_976_448));
        assert_eq!(cost("resnet18", 1000), (11_689_512, 1_814_073_344));
        assert_eq!(cost("resnet50", 1000), (25_557_032, 4_089_184_256));
        assert_eq!(cost("vgg16_bn", 1000), (138_365_992, 15_470_264_320));
        assert_eq!(cost("mobilenet_v2", 1000), (3_504_872, 300_774_272));
        assert_eq!(cost("shufflenet_v2_x1_0", 1000), (2_278_604, 144_907_992));
    }

    #[test]
    fn images_that_nothing_would_be_left_of_are_refused() {
        let build = |height, width| {
            let images = ImageShape { height, width, channels: 3 };
            let config = SgdConfig { momentum: 0.9, weight_decay: 0.0 };
            let origin = Origin { seed: 1, replica: 0 };
            ModelSpec::Vgg16Cifar.build(Task { images, classes: 10 }, origin, config)
        };
        assert!(build(32, 32).is_ok());
        assert_eq!(
            build(32, 31).err().unwrap().to_string(),
            "images are 32 x 31, expected at least 32 x 32 for this network"
        );
    }

    #[test]
    fn every_network_runs_on_the_smallest_images_that_it_claims_and_on_none_smaller() {
        for spec in ModelSpec::all() {
            let network = spec.blank(cifar(10)).unwrap();
            let planned = |side| {
                let image = Tensor::<4>::zeros([1, side, side, 3], &Device::flex());
                network.features(Features::of(image)).multiply_adds()
            };
            let smallest = network.net().smallest();
            assert!(planned(smallest).is_ok(), "{spec}");
            assert!(smallest == 1 || planned(smallest - 1).is_err(), "{spec}");
        }
    }

    #[test]
    fn a_model_needs_pixels_classes_and_blocks() {
        let error = "resnet8".parse::<ModelSpec>().unwrap().cost(cifar(0)).unwrap_err();
        assert_eq!(error.to_string(), "number of classes is 0, expected at least 1");
        let error = ModelSpec::ResNet { blocks: 0 }.cost(cifar(10)).unwrap_err();
        assert_eq!(error.to_string(), "number of blocks is 0, expected at least 1");
    }
}
