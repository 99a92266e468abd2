//! The figures of the paper: what they need, and what they teach.

use hwa_report::Part;
use hwa_report::paper::{self, Labelled};

use super::drawing::Drawing;
use super::surfaces;
use crate::failure::Failure;

/// A figure of the paper.
pub(super) struct Preset {
    /// What it is called.
    pub(super) name: &'static str,
    /// What it shows.
    pub(super) title: &'static str,
    /// What it teaches.
    pub(super) lesson: &'static str,
    /// The paper's networks.
    pub(super) networks: &'static [&'static str],
    /// What is trained, as entries of a comparison.
    pub(super) methods: &'static [&'static str],
    /// For so long.
    pub(super) epochs: u64,
    /// From these seeds.
    pub(super) seeds: &'static [u64],
    /// What it is drawn from.
    pub(super) drawn: Drawn,
}

/// What a figure is drawn from.
pub(super) enum Drawn {
    /// What runs have told.
    Told(fn(&[Labelled]) -> Vec<Part>),
    /// The weights that they have kept, which are measured.
    Measured(fn(&Drawing<'_>) -> Result<Vec<Part>, Failure>),
    /// The gradients at these weights, of several batches.
    Gradients(fn(&Drawing<'_>) -> Result<Vec<Part>, Failure>),
}

impl Drawn {
    pub(super) fn parts(&self, drawing: &Drawing<'_>) -> Result<Vec<Part>, Failure> {
        match self {
            Self::Told(draw) => Ok(draw(&drawing.labelled()?)),
            Self::Measured(draw) | Self::Gradients(draw) => draw(drawing),
        }
    }
}

// Figures know them by their labels.
const HWA_RUN: &str = r#"{ label = "HWA", method = "hwa" }"#;
const ONLINE_RUN: &str = r#"{ label = "online", method = "online" }"#;
const COSINE_RUN: &str = r#"{ label = "cosine", method = "sgd" }"#;
const SWA_RUNS: [&str; 3] = [
    r#"{ label = "SWA, rate 0.05", method = "swa", swa.rate = 0.05 }"#,
    r#"{ label = "SWA, rate 0.02", method = "swa", swa.rate = 0.02 }"#,
    r#"{ label = "SWA, rate 0.01", method = "swa", swa.rate = 0.01 }"#,
];
const CONSTANT_RUNS: [&str; 2] = [
    r#"{ label = "rate 0.1", method = "sgd", schedule.kind = "constant", optimizer.rate = 0.1 }"#,
    r#"{ label = "rate 0.25", method = "sgd", schedule.kind = "constant", optimizer.rate = 0.25 }"#,
];

/// All of them, in the order of the paper.
pub(super) const PRESETS: [Preset; 12] = [
    Preset {
        name: "swa-rate-sensitivity",
        title: "Offline averaging depends on the rate of its second stage",
        lesson: "the rate decides where the sampled weights lie, and so where their mean \
                 does: accuracy of offline averaging varies a lot with the rate of its \
                 second stage.",
        networks: &["resnet56"],
        methods: &SWA_RUNS,
        epochs: 400,
        seeds: &[1],
        drawn: Drawn::Told(paper::swa_rates),
    },
    Preset {
        name: "online-offline-hwa",
        title: "Online averaging, offline averaging and both",
        lesson: "HWA needs no second stage; it converges faster than either average alone, \
                 and ends higher.",
        networks: &["resnet56"],
        methods: &[ONLINE_RUN, SWA_RUNS[0], HWA_RUN],
        epochs: 400,
        seeds: &[1],
        drawn: Drawn::Told(paper::online_offline_hwa),
    },
    Preset {
        name: "constant-rate",
        title: "SGD with a constant rate oscillates",
        lesson: "after some epochs accuracy goes neither up nor down: the steps are too \
                 long for where the weights are. A larger rate stops higher up.",
        networks: &["resnet20"],
        methods: &CONSTANT_RUNS,
        epochs: 200,
        seeds: &[1],
        drawn: Drawn::Told(paper::constant_rate),
    },
    Preset {
        name: "online-projection",
        title: "Two models and their average on the loss surface",
        lesson: "models that began at the same point end on different sides of the valley; \
                 their average lies nearer to its floor.",
        networks: &["resnet32"],
        methods: &[HWA_RUN],
        epochs: 200,
        seeds: &[1],
        drawn: Drawn::Measured(surfaces::online),
    },
    Preset {
        name: "offline-projection",
        title: "Outer weights and their average on the loss surface",
        lesson: "what the online average does among models, the slide window does once more \
                 among cycles.",
        networks: &["resnet32"],
        methods: &[HWA_RUN],
        epochs: 200,
        seeds: &[1],
        drawn: Drawn::Measured(surfaces::offline),
    },
    Preset {
        name: "inner-outer-hwa",
        title: "Inner, outer and HWA weights",
        lesson: "the HWA weights converge faster than the outer weights, and these faster \
                 than the inner ones.",
        networks: &["resnet32"],
        methods: &[HWA_RUN],
        epochs: 200,
        seeds: &[1],
        drawn: Drawn::Told(paper::inner_outer_hwa),
    },
    Preset {
        name: "interpolation",
        title: "On the line from an average to a model",
        lesson: "both lie in one valley. Where the loss on test images is lowest is not \
                 where that on training images is: the average is on the flat side.",
        networks: &["resnet20"],
        methods: &[HWA_RUN],
        epochs: 200,
        seeds: &[1],
        drawn: Drawn::Measured(surfaces::interpolation),
    },
    Preset {
        name: "best-cycle",
        title: "The last HWA weights are not always the best",
        lesson: "the best HWA weights are those of about cycle 150 of 200, while accuracy \
                 on training images goes on rising: early stopping finds them.",
        networks: &["resnet110"],
        methods: &[HWA_RUN],
        epochs: 200,
        seeds: &[1],
        drawn: Drawn::Told(paper::best_cycle),
    },
    Preset {
        name: "restart",
        title: "The average is a restart",
        lesson: "at a synchronization the training loss falls at once; within the cycle \
                 that follows it rises again.",
        networks: &["resnet32"],
        methods: &[HWA_RUN],
        epochs: 200,
        seeds: &[1],
        drawn: Drawn::Measured(surfaces::restart),
    },
    Preset {
        name: "convergence-condition",
        title: "Why it rises: the convergence condition",
        lesson: "a step lowers the expected loss only while the noise of the batches, at \
                 the left, is below what the gradient is worth, at the right. The average \
                 lowers the right side, and the condition holds no more.",
        networks: &["resnet32"],
        methods: &[HWA_RUN],
        epochs: 200,
        seeds: &[1],
        drawn: Drawn::Gradients(surfaces::condition),
    },
    Preset {
        name: "window-boxplot",
        title: "Windows of 20 and of 50 cycles",
        lesson: "the length of the window matters differently on different data sets; a \
                 suitable one can gain a little more.",
        networks: &["resnet20", "resnet32"],
        methods: &[HWA_RUN],
        epochs: 200,
        seeds: &[1, 2, 3, 4, 5],
        drawn: Drawn::Told(paper::window_boxplot),
    },
    Preset {
        name: "convergence",
        title: "HWA converges faster",
        lesson: "HWA converges fast on training and on test images.",
        networks: &["vgg16_cifar", "mobilenet_v2_cifar", "resnet110"],
        methods: &[COSINE_RUN, HWA_RUN],
        epochs: 200,
        seeds: &[1],
        drawn: Drawn::Told(paper::convergence),
    },
];

/// The one of this name.
pub(super) fn named(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// What is trained, as a comparison. One network can take the place of the paper's, and a data
    /// set that of CIFAR-100.
    pub(super) fn comparison(&self, network: Option<&str>, dataset: &str) -> String {
        let networks: Vec<String> = match network {
            Some(name) => vec![name.to_owned()],
            None => self.networks.iter().map(|name| (*name).to_owned()).collect(),
        };
        let networks: Vec<String> = networks.iter().map(|name| entry(name)).collect();
        let (methods, networks) = (self.methods.join(",\n    "), networks.join(", "));
        let (epochs, seeds) = (self.epochs, self.seeds);
        let (name, title, dataset) = (self.name, self.title, toml_text(dataset));
        format!(
            "name = \"{name}\"\ntitle = \"{title}\"\nseeds = {seeds:?}\n\
             budgets = [\"per-model\"]\nmethods = [\n    {methods},\n]\nnetworks = [{networks}]\n\
             datasets = [{dataset}]\n\n[experiment]\n\
             optimizer = {{ rate = 0.1, momentum = 0.9, weight_decay = 5e-4, batch = 128 }}\n\
             schedule = {{ epochs = {epochs} }}\n\
             hwa = {{ num_models = 2, sync_period = \"epoch\", window_length = [20, 50] }}\n\
             evaluate = {{ every = 1, train_images = 5000, test_curve = true }}\n"
        )
    }
}

/// A network with the paper's rate for it.
fn entry(network: &str) -> String {
    let name = toml_text(network);
    match network {
        "mobilenet_v2_cifar" => {
            format!("{{ label = {name}, model.name = {name}, optimizer.rate = 0.05 }}")
        }
        _ => name,
    }
}

fn toml_text(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_and_every_figure_teaches_something() {
        for (index, preset) in PRESETS.iter().enumerate() {
            assert!(preset.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
            assert!(PRESETS[..index].iter().all(|other| other.name != preset.name));
            assert!(preset.lesson.ends_with('.') && !preset.networks.is_empty());
        }
    }

    #[test]
    fn runs_have_the_labels_that_figures_know_them_by() {
        let runs = [HWA_RUN, ONLINE_RUN, COSINE_RUN, SWA_RUNS[0]];
        for (run, label) in runs.iter().zip([paper::HWA, paper::ONLINE, paper::COSINE, paper::SWA])
        {
            let table: toml::Table = format!("run = {run}").parse().unwrap();
            assert_eq!(table["run"]["label"].as_str(), Some(label));
        }
    }

    #[test]
    fn a_network_of_ones_own_takes_the_place_of_the_papers() {
        let text = PRESETS[11].comparison(Some("resnet8"), "digits");
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table["networks"].as_array().unwrap()[0].as_str(), Some("resnet8"));
        assert_eq!(table["datasets"].as_array().unwrap()[0].as_str(), Some("digits"));
        let text = PRESETS[11].comparison(None, "a \"quoted\" name");
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table["networks"].as_array().unwrap().len(), 3);
        assert_eq!(table["networks"][1]["optimizer"]["rate"].as_float(), Some(0.05));
    }
}
