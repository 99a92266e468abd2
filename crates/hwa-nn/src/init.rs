//! Initial weights, drawn from addressed random numbers.
//!
//! Burn's own generator is shared between threads, so what a replica draws from it
//! depends on the others. Here each tensor has a stream of its own, addressed by
//! seed, replica and the tensor's number in the order of construction.
//! Where weights are loaded afterwards, or a model is only counted, nothing is drawn.

use burn::tensor::{Device, Tensor, TensorData};
use hwa_core::seed::{Purpose, Random};

/// Draws the initial weights of one model, tensor by tensor, on one device.
#[derive(Debug)]
pub struct Init {
    /// Seed and replica; none if all is zero.
    origin: Option<(u64, u32)>,
    drawn: u64,
    device: Device,
}

impl Init {
    /// The initial weights of one replica.
    pub fn new(seed: u64, replica: u32, device: &Device) -> Self {
        Self { origin: Some((seed, replica)), drawn: 0, device: device.clone() }
    }

    /// Zeros instead of initial weights, for a model that is not trained as it is: drawing
    /// those of a large model takes seconds.
    pub fn blank(device: &Device) -> Self {
        Self { origin: None, drawn: 0, device: device.clone() }
    }

    /// The device that the tensors are made on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Normal draws with mean zero.
    pub fn normal<const D: usize>(&mut self, shape: [usize; D], deviation: f64) -> Tensor<D> {
        self.draw(shape, |random| deviation * random.normal())
    }

    /// Uniform draws from `[-bound, bound)`.
    pub fn uniform<const D: usize>(&mut self, shape: [usize; D], bound: f64) -> Tensor<D> {
        self.draw(shape, |random| bound * (2.0 * random.unit() - 1.0))
    }

    fn draw<const D: usize>(
        &mut self,
        shape: [usize; D],
        mut one: impl FnMut(&mut Random) -> f64,
    ) -> Tensor<D> {
        let Some((seed, replica)) = self.origin else {
            // One zero that is seen everywhere: nothing else is allocated.
            return Tensor::<D>::zeros([1; D], &self.device).expand(shape);
        };
        let mut random = Random::new(seed, replica, Purpose::Init, [self.drawn, 0]);
        self.drawn += 1;
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|_| one(&mut random) as f32).collect();
        Tensor::from_data(TensorData::new(values, shape), &self.device)
    }
}
