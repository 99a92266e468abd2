//! Which vectors the CPU has.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use super::Kernel;
use super::portable::Portable;
#[cfg(target_arch = "x86_64")]
use super::x86::{Avx2, Avx512};

/// The environment variable that chooses a level.
const VARIABLE: &str = "HWA_SIMD";

/// A set of vector instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level(Kind);

/// Private: a `Level` is the proof that the CPU has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

/// A level that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// There is no level of that name.
    #[error("unknown SIMD level `{found}`, expected `avx512`, `avx2` or `portable`")]
    Unknown {
        /// What was asked for.
        found: String,
    },
    /// The CPU does not have it.
    #[error("this CPU has no `{wanted}`, its best SIMD level is `{best}`")]
    Missing {
        /// What was asked for.
        wanted: String,
        /// What there is.
        best: Level,
    },
}

impl Level {
    /// Four numbers at a time in plain Rust, on every CPU.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// The levels of this CPU, best first.
    pub fn available() -> Vec<Self> {
        let mut levels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                levels.push(Self(Kind::Avx512));
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                levels.push(Self(Kind::Avx2));
            }
        }
        levels.push(Self::PORTABLE);
        levels
    }

    /// The best level of this CPU.
    pub fn best() -> Self {
        Self::available().first().copied().unwrap_or(Self::PORTABLE)
    }

    /// The level that `HWA_SIMD` asks for, or the best; decided once per process.
    pub fn chosen() -> Result<Self, LevelError> {
        static CHOSEN: OnceLock<Result<Level, LevelError>> = OnceLock::new();
        let choose = || match std::env::var_os(VARIABLE) {
            Some(name) if !name.is_empty() => name.to_string_lossy().parse(),
            _ => Ok(Self::best()),
        };
        CHOSEN.get_or_init(choose).clone()
    }

    /// The numbers in a vector.
    pub fn lanes(self) -> usize {
        struct Lanes;
        impl Kernel for Lanes {
            type Output = usize;
            #[inline(always)]
            fn run<S: super::Simd>(self) -> usize {
                S::LANES
            }
        }
        self.run(Lanes)
    }

    /// Runs a kernel with this level's instructions.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a level is made by `available` only, which asked the CPU.
            Kind::Avx512 => unsafe { on_avx512(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Kind::Avx2 => unsafe { on_avx2(kernel) },
            Kind::Portable => kernel.run::<Portable>(),
        }
    }

    fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            Kind::Portable => "portable",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = LevelError;

    fn from_str(name: &str) -> Result<Self, LevelError> {
        let found = Self::available().into_iter().find(|level| level.name() == name);
        match found {
            Some(level) => Ok(level),
            None if ["avx512", "avx2"].contains(&name) => {
                Err(LevelError::Missing { wanted: name.to_owned(), best: Self::best() })
            }
            None => Err(LevelError::Unknown { found: name.to_owned() }),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn on_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Avx512>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn on_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Avx2>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_available_level_is_found_by_its_name() {
        for level in Level::available() {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        let error = LevelError::Unknown { found: "sse9".to_owned() };
        assert_eq!("sse9".parse::<Level>(), Err(error));
    }

    #[test]
    fn vectors_fill_a_group() {
        for level in Level::available() {
            assert_eq!(crate::simd::GROUP % level.lanes(), 0, "{level}");
        }
    }
}
