//! Which arithmetic decides the bits.

use hwa_kernels::simd::Level;

/// Names the instruction paths on this machine: that of the networks, and that of the tensor
/// library around them, both on [`Device::flex`](burn::tensor::Device::flex). Runs on the same
/// paths give the same bits; other paths round differently, and so do other devices.
pub fn arithmetic() -> String {
    #[cfg(target_arch = "x86_64")]
    let path = if is_x86_feature_detected!("avx512f") {
        "avx512"
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        "avx2+fma"
    } else {
        "sse2"
    };
    #[cfg(not(target_arch = "x86_64"))]
    let path = std::env::consts::ARCH;
    let level = Level::chosen().unwrap_or(Level::best());
    format!("hwa-kernels {level}, burn-flex {path}")
}
