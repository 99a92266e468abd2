//! Which arithmetic decides the bits.

/// Names the instruction path of the tensor library on this machine. Runs on the
/// same path give the same bits; another path rounds differently.
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
    format!("burn-flex {path}")
}
