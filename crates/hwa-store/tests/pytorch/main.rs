//! Files of `torch.save`: what PyTorch wrote is read bit for bit, and what is hostile or
//! damaged is refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod damaged;
mod golden;
mod hostile;
mod live;
mod torch_file;
mod views;
