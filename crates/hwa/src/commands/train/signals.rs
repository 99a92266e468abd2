//! Signals that interrupt a training.

use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hwa_train::Interrupt;

use crate::failure::Failure;
use crate::terminal::Voice;

/// The first Ctrl-C asks for a state to resume from, the second leaves at once.
pub(crate) fn interrupt_on_ctrl_c(voice: Voice) -> Result<Interrupt, Failure> {
    Ok(Signals::heed()?.saying(voice))
}

/// Ctrl-C and `SIGTERM`, heeded from before there is anything to be saved.
pub(super) struct Signals {
    /// Who asks for what they ask for.
    pub(super) interrupt: Interrupt,
    /// Who says that a state is saved.
    voice: Arc<OnceLock<Voice>>,
}

impl Signals {
    /// The first asks for an interrupt, the second leaves at once.
    pub(super) fn heed() -> Result<Self, Failure> {
        Self::heed_with(
            "interrupted: finishing what is under way and saving (again to leave at once)",
        )
    }

    /// The same of a rank among others. A launcher sends the signal too when a rank is gone, and
    /// then nothing can be saved.
    #[cfg(feature = "mpi")]
    pub(super) fn heed_among_ranks() -> Result<Self, Failure> {
        Self::heed_with(
            "asked to end, by somebody or by the launcher because a rank is gone: saving, if all \
             ranks are there (again to leave at once)",
        )
    }

    fn heed_with(words: &'static str) -> Result<Self, Failure> {
        let voice = Arc::<OnceLock<Voice>>::default();
        let heard = Arc::clone(&voice);
        let interrupt = interrupt_with(move |signals| match (signals, heard.get()) {
            (1, Some(voice)) => voice.say(words),
            (1, None) => {}
            _ => exit(130),
        })?;
        Ok(Self { interrupt, voice })
    }

    /// All ask for an interrupt.
    #[cfg(feature = "mpi")]
    pub(super) fn pass_on() -> Result<Self, Failure> {
        Ok(Self { interrupt: interrupt_with(|_| {})?, voice: Arc::default() })
    }

    /// From now on there is something to be saved, and this is who says so.
    pub(super) fn saying(&self, voice: Voice) -> Interrupt {
        self.voice.get_or_init(|| voice);
        self.interrupt.clone()
    }
}

/// Every signal asks for a state, and `heed` is told how many have come. An interrupt may have been
/// requested before by somebody else: the first signal is the first all the same.
fn interrupt_with(heed: impl Fn(usize) + Send + 'static) -> Result<Interrupt, Failure> {
    let interrupt = Interrupt::new();
    let request = interrupt.clone();
    let signals = AtomicUsize::new(0);
    let handler = move || {
        request.request();
        heed(signals.fetch_add(1, Ordering::Relaxed) + 1);
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::Run(error.into()))?;
    Ok(interrupt)
}
