//! Loading ahead: a thread of its own fills a short queue of batches.
//!
//! The queue hands over what the iterator gave, in order, so running ahead changes
//! the time of a run and nothing else.

use std::any::Any;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};

use crate::batch::Batch;
use crate::error::DataError;

/// A batch iterator that runs ahead in its own thread.
///
/// Dropping it ends the thread, after the batch that is being made.
#[derive(Debug)]
pub struct Ahead {
    /// `None` once the thread has ended.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    batches: Receiver<Result<Batch, DataError>>,
    thread: JoinHandle<()>,
}

impl Ahead {
    /// Runs `batches` at most `depth` batches ahead, and at least one.
    pub fn spawn(
        batches: impl Iterator<Item = Result<Batch, DataError>> + Send + 'static,
        depth: usize,
    ) -> Result<Self, DataError> {
        // The thread itself holds one finished batch while it waits for room.
        let (sender, receiver) = sync_channel(depth.saturating_sub(1));
        let work = move || {
            for batch in batches {
                if sender.send(batch).is_err() {
                    break; // nobody listens any more
                }
            }
        };
        let thread = Builder::new().name("hwa-data".to_owned()).spawn(work);
        let thread = thread.map_err(|source| DataError::Thread { source })?;
        Ok(Self { running: Some(Running { batches: receiver, thread }) })
    }

    /// Waits for the thread to end; if it panicked, says what it said.
    fn finish(&mut self) -> Option<DataError> {
        let Running { batches, thread } = self.running.take()?;
        drop(batches); // before waiting: a thread that wants to send must fail to
        let panic = thread.join().err()?;
        Some(DataError::Panicked { message: message(panic.as_ref()) })
    }
}

impl Iterator for Ahead {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.running.as_ref()?.batches.recv() {
            Ok(batch) => Some(batch),
            // The sender is gone: the iterator has ended, or it panicked.
            Err(_) => self.finish().map(Err),
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.finish();
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "(no message)".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::dataset::ImageShape;

    fn batch(label: u32) -> Batch {
        let shape = ImageShape { height: 1, width: 1, channels: 1 };
        Batch { images: vec![0.0], labels: vec![label], shape }
    }

    #[test]
    fn batches_keep_their_order_at_any_depth() {
        for depth in [0, 1, 2, 100] {
            let ahead = Ahead::spawn((0..50).map(|i| Ok(batch(i))), depth).unwrap();
            let labels: Vec<u32> = ahead.map(|batch| batch.unwrap().labels[0]).collect();
            assert_eq!(labels, (0..50).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn an_error_is_passed_on_and_the_rest_still_comes() {
        let failed = Err(DataError::NoSuchExample { index: 7, count: 1 });
        let mut ahead = Ahead::spawn([Ok(batch(0)), failed, Ok(batch(2))].into_iter(), 2).unwrap();
        assert!(ahead.next().unwrap().is_ok());
        let error = ahead.next().unwrap().unwrap_err();
        assert!(matches!(error, DataError::NoSuchExample { index: 7, count: 1 }));
        assert_eq!(ahead.next().unwrap().unwrap().labels, [2]);
        assert!(ahead.next().is_none() && ahead.next().is_none());
    }

    #[test]
    fn dropping_it_ends_the_thread() {
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let endless = (0..).map(move |i| {
            let _held = &held;
            Ok(batch(i))
        });
        let mut ahead = Ahead::spawn(endless, 3).unwrap();
        assert!(ahead.next().is_some());
        drop(ahead);
        // What the thread owned is gone, so the thread is.
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn it_runs_at_most_its_depth_ahead() {
        let made = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&made);
        let endless = (0..).map(move |i| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(batch(i))
        });
        let mut ahead = Ahead::spawn(endless, 3).unwrap();
        ahead.next();
        // Long enough to make thousands, were it not held back. One was taken.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(made.load(Ordering::SeqCst) <= 4);
    }

    #[test]
    fn a_panic_becomes_an_error_and_then_the_end() {
        let breaks = (0..).map(|i| if i < 2 { Ok(batch(i)) } else { panic!("batch {i} broke") });
        let mut ahead = Ahead::spawn(breaks, 8).unwrap();
        assert!(ahead.next().unwrap().is_ok());
        assert!(ahead.next().unwrap().is_ok());
        let error = ahead.next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the loading thread panicked: batch 2 broke");
        assert!(ahead.next().is_none());
    }
}
