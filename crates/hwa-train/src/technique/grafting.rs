//! Filter grafting: networks that take over what others have learned.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use hwa_core::{OuterWeights, Role, Tensor, Weights, WeightsError};

use super::filters::{Layer, layers};
use super::{Technique, TechniqueError};
use crate::collective::Collective;
use crate::replica::{Replica, State};

/// Bins of the histogram whose entropy tells how much a layer knows.
const BINS: usize = 10;

/// After every cycle each network becomes a mixture of itself and the one before it, layer by
/// layer. The one whose weights have the higher entropy gets the larger share:
///
/// ```text
/// alpha = (a / pi) * atan(c * (H(own) - H(other))) + 1/2
/// own   = alpha * own + (1 - alpha) * other
/// ```
///
/// Networks differ by their initial weights, by the order of their images and by their rates.
///
/// F. Meng and others, "Filter Grafting for Deep Neural Networks", CVPR 2020.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grafting {
    /// How far shares can be from one half: by half of this.
    pub a: f64,
    /// How fast shares follow a difference of entropies.
    pub c: f64,
    /// What the rate is multiplied with for this network.
    pub share_of_rate: f64,
}

impl Grafting {
    /// For the network of this number, from 0, of so many. As in the authors' program, rates
    /// are a cosine apart, and the last network has the whole rate.
    pub fn new(a: f64, c: f64, number: usize, networks: usize) -> Self {
        let behind = networks.saturating_sub(number + 1) as f64 / networks.max(1) as f64;
        Self { a, c, share_of_rate: (1.0 + (PI * behind).cos()) / 2.0 }
    }

    /// The mixture of a network with the one before it: parameters, and running statistics with
    /// the batch norm that they belong to.
    fn grafted(
        &self,
        own: &Weights,
        other: &Weights,
        layers: &[Layer],
    ) -> Result<Weights, WeightsError> {
        let (mut by_name, mut by_module) = (BTreeMap::new(), BTreeMap::new());
        for Layer { filters, followers } in layers {
            let gain = entropy(own.require(filters)?) - entropy(other.require(filters)?);
            let alpha = self.a / PI * (self.c * gain).atan() + 0.5;
            for name in std::iter::once(filters).chain(followers) {
                by_name.insert(name.as_str(), alpha);
                by_module.extend(module(name).map(|module| (module, alpha)));
            }
        }
        let mut grafted = Weights::new();
        for (name, mine) in own.iter() {
            let alpha = match mine.role() {
                Role::Parameter => by_name.get(name),
                Role::Statistic => module(name).and_then(|module| by_module.get(module)),
                Role::Counter => None,
            };
            let tensor = match alpha {
                Some(alpha) => {
                    let theirs = other.require(name)?;
                    mine.combined(theirs, |a, b| alpha * a + (1.0 - alpha) * b)?
                }
                None => mine.clone(),
            };
            grafted.insert(name, tensor)?;
        }
        Ok(grafted)
    }
}

impl Technique for Grafting {
    fn rate(&self, scheduled: f64) -> f64 {
        scheduled * self.share_of_rate
    }

    fn go_on(
        &mut self,
        model: &mut dyn Replica,
        _outer: &OuterWeights,
        others: &mut dyn Collective,
    ) -> Result<(), TechniqueError> {
        let State { weights: own, momentum } = model.state()?;
        let other = others.shift(own.clone())?;
        let layers = layers(&model.parameters()?, &own)?;
        let weights = self.grafted(&own, &other, &layers)?;
        Ok(model.restore(&State { weights, momentum })?)
    }
}

/// `layer1.0.bn1` of `layer1.0.bn1.weight`.
fn module(name: &str) -> Option<&str> {
    name.rsplit_once('.').map(|(module, _)| module)
}

/// The entropy of the histogram of values between the least and the greatest, in nats.
fn entropy(tensor: &Tensor) -> f64 {
    let values = tensor.values().to_f64();
    let (low, high) = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)));
    if values.is_empty() || low >= high {
        return 0.0;
    }
    let mut counts = [0u64; BINS];
    for value in &values {
        // The greatest belongs to the last bin.
        let bin = ((value - low) / (high - low) * BINS as f64) as usize;
        counts[bin.min(BINS - 1)] += 1;
    }
    let share = |count: u64| count as f64 / values.len() as f64;
    let parts = counts.into_iter().filter(|count| *count > 0).map(share);
    -parts.map(|p| p * p.ln()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use hwa_core::Values;

    use super::*;

    fn tensor(shape: &[usize], values: Vec<f32>) -> Tensor {
        Tensor::parameter(shape.to_vec(), values).unwrap()
    }

    #[test]
    fn entropy_is_that_of_ten_bins() {
        let even = (0..20).map(|i| i as f32).collect();
        assert!((entropy(&tensor(&[20], even)) - 10f64.ln()).abs() < 1e-12);
        assert_eq!(entropy(&tensor(&[3], vec![2.0; 3])), 0.0);
        // Three quarters in the first bin, one in the last.
        let expected = -(0.75 * 0.75f64.ln() + 0.25 * 0.25f64.ln());
        let found = entropy(&tensor(&[4], vec![0.0, 0.05, 0.01, 1.0]));
        assert!((found - expected).abs() < 1e-12);
    }

    #[test]
    fn a_layer_takes_more_of_the_network_that_knows_more() {
        let names = ["a.conv", "a.bn", "b.conv", "fc"].map(str::to_owned);
        let network = |conv: [f32; 4], other: f32| {
            let mut weights = Weights::new();
            for name in &names {
                let tensor = match name.ends_with("conv") {
                    true => tensor(&[4, 1, 1, 1], conv.to_vec()),
                    false => tensor(&[1], vec![other]),
                };
                weights.insert(name, tensor).unwrap();
            }
            weights
        };
        // Entropies: ln 4 and that of three and one.
        let (own, other) = (network([0.0, 1.0, 2.0, 3.0], 1.0), network([0.0, 0.0, 0.0, 1.0], 0.0));
        let layers = layers(&names, &own).unwrap();
        assert_eq!(layers.len(), 2);
        assert_eq!(layers[0].followers, ["a.bn"]);
        let graft = Grafting::new(0.4, 500.0, 0, 2);
        let grafted = graft.grafted(&own, &other, &layers).unwrap();
        let gain = 4f64.ln() + 0.75 * 0.75f64.ln() + 0.25 * 0.25f64.ln();
        let alpha = 0.4 / PI * (500.0 * gain).atan() + 0.5;
        assert!((0.69..0.7).contains(&alpha));
        let value = |name: &str, at: usize| grafted.get(name).unwrap().as_f32().unwrap()[at];
        assert_eq!(value("a.bn", 0), alpha as f32, "the batch norm follows its convolution");
        assert_eq!(value("fc", 0), alpha as f32);
        assert_eq!(value("a.conv", 2), (2.0 * alpha) as f32);
        let back = graft.grafted(&other, &own, &layers).unwrap();
        assert_eq!(back.get("fc").unwrap().as_f32().unwrap()[0], alpha as f32);
    }

    #[test]
    fn rates_are_a_cosine_apart() {
        let rates: Vec<f64> = (0..2).map(|i| Grafting::new(0.4, 500.0, i, 2).rate(1.0)).collect();
        assert!((rates[0] - 0.5).abs() < 1e-12 && (rates[1] - 1.0).abs() < 1e-12);
        assert_eq!(Grafting::new(0.4, 500.0, 0, 1).rate(0.1), 0.1);
    }

    #[test]
    fn a_batch_norm_follows_its_convolution_with_its_statistics() {
        let network = |value: f32, spread: f32| {
            let mut weights = Weights::new();
            let filters = vec![0.0, spread, 1.0, 1.0];
            weights.insert("conv.weight", tensor(&[2, 2, 1, 1], filters)).unwrap();
            weights.insert("bn.weight", tensor(&[2], vec![value; 2])).unwrap();
            let statistic = Values::F32(vec![10.0 * value; 2]);
            let statistic = Tensor::new(Role::Statistic, vec![2], statistic).unwrap();
            weights.insert("bn.running_mean", statistic).unwrap();
            let count = Values::I64(vec![value as i64]);
            let count = Tensor::new(Role::Counter, vec![], count).unwrap();
            weights.insert("bn.num_batches_tracked", count).unwrap();
            weights
        };
        let names = ["conv.weight", "bn.weight"].map(str::to_owned);
        let (own, other) = (network(1.0, 0.5), network(2.0, 1.0));
        let layers = layers(&names, &own).unwrap();
        let grafted = Grafting::new(0.4, 500.0, 1, 2).grafted(&own, &other, &layers).unwrap();
        // Three bins of 1/4, 1/4, 1/2 against two of 1/4 and 3/4: about 0.48 nats, so the
        // arc tangent is nearly pi / 2.
        let gain = 1.5 * 2f64.ln() - (2.0 * 2f64.ln() - 0.75 * 3f64.ln());
        let alpha = 0.4 / PI * (500.0 * gain).atan() + 0.5;
        assert!((alpha - 0.7).abs() < 1e-3);
        let first = |name: &str| grafted.get(name).unwrap().values().to_f64()[0];
        assert!((first("bn.weight") - (alpha + 2.0 * (1.0 - alpha))).abs() < 1e-6);
        assert!((first("bn.running_mean") - 10.0 * (alpha + 2.0 * (1.0 - alpha))).abs() < 1e-5);
        assert_eq!(first("bn.num_batches_tracked"), 1.0, "counters are never averaged");
    }
}
