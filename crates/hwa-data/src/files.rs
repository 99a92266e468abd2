//! Images in files, decoded when they are asked for.
//!
//! Decoded images stay in memory, as bytes, until the memory that was allowed for them is
//! used up; the rest is decoded again each time. Epochs visit every image once, in a new
//! order: with such visits no rule for throwing images out does better than none.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crc32fast::Hasher;
use hwa_picture::Picture;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::dataset::{Dataset, Example, ImageShape, OnBadImage};
use crate::error::DataError;

/// Files larger than this are no photographs.
const LARGEST_FILE: u64 = 256 << 20;

/// Pictures of more pixels than this are decoded one at a time: they take up to sixteen bytes
/// a pixel meanwhile, and a gigabyte for each thread is more than a laptop has to spare.
const LARGE_PICTURE: usize = 16_000_000;

/// One image file and its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelledFile {
    /// Below the root of the data set.
    pub(crate) path: Box<Path>,
    pub(crate) label: u32,
}

/// What the images of a data set share: memory, threads, and what went wrong.
#[derive(Debug)]
pub(crate) struct Studio {
    /// The folder that paths start at.
    root: PathBuf,
    /// What the shorter side is brought to before an image is kept.
    shorter: Option<NonZeroUsize>,
    on_bad_image: OnBadImage,
    /// Bytes that may still be kept.
    room: AtomicUsize,
    pool: ThreadPool,
    /// Held while a large picture is decoded.
    large: Mutex<()>,
    unreadable: Unreadable,
}

/// The images that could not be read, and why.
#[derive(Debug, Default)]
pub(crate) struct Unreadable(Mutex<BTreeMap<PathBuf, String>>);

impl Unreadable {
    /// All of them, by path.
    pub(crate) fn list(&self) -> Vec<(PathBuf, String)> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.iter().map(|(path, reason)| (path.clone(), reason.clone())).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Notes a file; true if it was not noted before.
    fn note(&self, path: &Path, reason: &str) -> bool {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.insert(path.to_owned(), reason.to_owned()).is_none()
    }
}

/// How files are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) root: PathBuf,
    pub(crate) shorter: Option<usize>,
    pub(crate) on_bad_image: OnBadImage,
    /// Memory for decoded images.
    pub(crate) cache_bytes: usize,
    /// Threads that decode; 0 for one per core.
    pub(crate) decoders: usize,
}

impl Studio {
    pub(crate) fn new(reading: Reading) -> Result<Arc<Self>, DataError> {
        let Reading { root, shorter, on_bad_image, cache_bytes, decoders } = reading;
        let pool = ThreadPoolBuilder::new()
            .num_threads(decoders)
            .thread_name(|i| format!("hwa-decode-{i}"))
            .build()
            .map_err(|error| DataError::Thread { source: std::io::Error::other(error) })?;
        let shorter = shorter.and_then(NonZeroUsize::new);
        let room = AtomicUsize::new(cache_bytes);
        let (large, unreadable) = (Mutex::new(()), Unreadable::default());
        Ok(Arc::new(Self { root, shorter, on_bad_image, room, pool, large, unreadable }))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn unreadable(&self) -> &Unreadable {
        &self.unreadable
    }

    fn decode(&self, file: &Path) -> Result<Picture, DataError> {
        let path = self.root.join(file);
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(Unread::Bad(reason)) => return Err(self.give_up(path, reason)),
            Err(Unread::Failed(source)) => return Err(DataError::Io { path, source }),
        };
        // Decoders are made for hostile files, and yet some panic at one now and then.
        let (shorter, large) = (self.shorter, panic::AssertUnwindSafe(&self.large));
        let picture = panic::catch_unwind(|| {
            // What is wrong with a file, decoding tells better than a look at its head.
            let is_large = Picture::announced_pixels(&bytes).is_ok_and(|n| n > LARGE_PICTURE);
            let _alone = is_large.then(|| large.lock().unwrap_or_else(PoisonError::into_inner));
            let picture = Picture::decode(&bytes)?;
            match shorter {
                Some(side) => picture.resize_shorter(side),
                None => Ok(picture),
            }
        });
        let reason = match picture {
            Ok(Ok(picture)) => return Ok(picture),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its decoder panicked".to_owned(),
        };
        Err(self.give_up(path, reason))
    }

    /// Notes a bad image, and says so once.
    fn give_up(&self, path: PathBuf, reason: String) -> DataError {
        if self.unreadable.note(&path, &reason) && self.on_bad_image == OnBadImage::Skip {
            log::warn!("left out: `{}`: {reason}", path.display());
        }
        DataError::BadImage { path, reason }
    }

    /// Whether so many more bytes may be kept; if so, they are taken.
    fn take_room(&self, bytes: usize) -> bool {
        let less = |room: usize| room.checked_sub(bytes);
        self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// Why a file could not be read.
enum Unread {
    /// It will not be better next time.
    Bad(String),
    /// The disk or the network failed, or the system: that says nothing about the image.
    Failed(io::Error),
}

/// How often a file is tried, and how long it rests between.
const TRIES: usize = 3;
const REST: Duration = Duration::from_millis(100);

/// The bytes of a file, if they can be had.
pub(crate) fn bytes_of(path: &Path) -> Option<Vec<u8>> {
    read(path).ok()
}

fn read(path: &Path) -> Result<Vec<u8>, Unread> {
    let mut tries = 1;
    loop {
        match read_once(path) {
            Err(Unread::Failed(_)) if tries < TRIES => {
                tries += 1;
                thread::sleep(REST);
            }
            outcome => return outcome,
        }
    }
}

fn read_once(path: &Path) -> Result<Vec<u8>, Unread> {
    use io::ErrorKind::{InvalidInput, NotFound, PermissionDenied};
    let failed = |error: io::Error| match error.kind() {
        NotFound | PermissionDenied | InvalidInput => {
            Unread::Bad(format!("cannot be read: {error}"))
        }
        _ => Unread::Failed(error),
    };
    // Before it is opened: opening a pipe waits for someone to write.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Unread::Bad("not a file".to_owned()));
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(Unread::Bad(format!("has more than {LARGEST_FILE} bytes")));
    }
    Ok(bytes)
}

/// A data set of image files.
#[derive(Debug)]
pub(crate) struct ImageFiles {
    studio: Arc<Studio>,
    files: Vec<LabelledFile>,
    num_classes: usize,
    kept: Vec<OnceLock<Kept>>,
}

/// What became of a file.
#[derive(Debug)]
enum Kept {
    Image {
        pixels: Box<[u8]>,
        shape: ImageShape,
    },
    /// It cannot be read: there is no need to try again.
    Nothing {
        reason: String,
    },
}

impl ImageFiles {
    /// Labels below `num_classes`.
    pub(crate) fn new(
        studio: Arc<Studio>,
        files: Vec<LabelledFile>,
        num_classes: usize,
    ) -> Result<Self, DataError> {
        let out = files.iter().position(|file| file.label as usize >= num_classes);
        if let Some(index) = out {
            let label = files[index].label;
            return Err(DataError::NotAClass { index, label, classes: num_classes });
        }
        let kept = files.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { studio, files, num_classes, kept })
    }

    fn labelled(&self, index: usize) -> Result<&LabelledFile, DataError> {
        let count = self.files.len();
        self.files.get(index).ok_or(DataError::NoSuchExample { index, count })
    }

    fn shown<'a>(&self, kept: &'a Kept, file: &LabelledFile) -> Result<Example<'a>, DataError> {
        match kept {
            Kept::Image { pixels, shape } => {
                Ok(Example { pixels: Cow::Borrowed(pixels), shape: *shape, label: file.label })
            }
            Kept::Nothing { reason } => {
                let path = self.studio.root.join(&file.path);
                Err(DataError::BadImage { path, reason: reason.clone() })
            }
        }
    }
}

impl Dataset for ImageFiles {
    fn num_examples(&self) -> usize {
        self.files.len()
    }

    fn num_classes(&self) -> usize {
        self.num_classes
    }

    fn label(&self, index: usize) -> Result<u32, DataError> {
        Ok(self.labelled(index)?.label)
    }

    fn get(&self, index: usize) -> Result<Example<'_>, DataError> {
        let file = self.labelled(index)?;
        if let Some(kept) = self.kept[index].get() {
            return self.shown(kept, file);
        }
        let picture = match self.studio.decode(&file.path) {
            Ok(picture) => picture,
            Err(DataError::BadImage { path, reason }) => {
                // An error means that another thread was first, with the same result.
                let _ = self.kept[index].set(Kept::Nothing { reason: reason.clone() });
                return Err(DataError::BadImage { path, reason });
            }
            Err(error) => return Err(error),
        };
        let shape = picture.shape();
        if !self.studio.take_room(shape.len()) {
            let pixels = Cow::Owned(picture.into_pixels());
            return Ok(Example { pixels, shape, label: file.label });
        }
        let pixels = picture.into_pixels().into_boxed_slice();
        if self.kept[index].set(Kept::Image { pixels, shape }).is_err() {
            // Another thread was first, with the same image.
            self.studio.room.fetch_add(shape.len(), Ordering::Relaxed);
        }
        match self.kept[index].get() {
            Some(kept) => self.shown(kept, file),
            None => Err(DataError::NoSuchExample { index, count: self.files.len() }),
        }
    }

    fn checksum(&self, index: usize) -> Result<u32, DataError> {
        let LabelledFile { path, label } = self.labelled(index)?;
        // One that is not there is as good as an empty one: it has no image.
        let size = fs::metadata(self.studio.root.join(path)).map_or(0, |found| found.len());
        let mut hasher = Hasher::new();
        hasher.update(path.as_os_str().as_encoded_bytes());
        hasher.update(&size.to_le_bytes());
        hasher.update(&label.to_le_bytes());
        Ok(hasher.finalize())
    }

    fn file(&self, index: usize) -> Option<&Path> {
        self.files.get(index).map(|file| &*file.path)
    }

    fn give_up(&self, index: usize, reason: String) -> Option<DataError> {
        let path = self.studio.root.join(&self.files.get(index)?.path);
        Some(self.studio.give_up(path, reason))
    }

    fn on_bad_image(&self) -> OnBadImage {
        self.studio.on_bad_image
    }

    fn decoders(&self) -> Option<&ThreadPool> {
        Some(&self.studio.pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{bmp, folder, images};
    use crate::scan::class_folders;

    fn opened(dir: &Path, cache_bytes: usize, shorter: Option<usize>) -> ImageFiles {
        let (root, on_bad_image) = (dir.to_owned(), OnBadImage::Skip);
        let reading = Reading { root, shorter, on_bad_image, cache_bytes, decoders: 1 };
        let found = class_folders(dir, dir).unwrap();
        ImageFiles::new(Studio::new(reading).unwrap(), found.files, found.classes.len()).unwrap()
    }

    fn is_kept(files: &ImageFiles, index: usize) -> bool {
        matches!(files.get(index).unwrap().pixels, Cow::Borrowed(_))
    }

    #[test]
    fn images_are_kept_until_the_memory_is_used_up() {
        let dir = folder(images("a", 3));
        // An image has 8 * 10 * 3 = 240 bytes.
        let files = opened(dir.path(), 500, None);
        assert_eq!([0, 1, 2].map(|i| is_kept(&files, i)), [true, true, false]);
        fs::remove_dir_all(dir.path().join("a")).unwrap();
        assert_eq!(files.get(0).unwrap().pixels[..3], [0, 100, 200]);
        assert!(matches!(files.get(2), Err(DataError::BadImage { .. })));
    }

    #[test]
    fn images_are_kept_at_the_size_that_they_are_cropped_from() {
        let dir =
            folder([("a/wide.bmp", bmp(8, 20, [1, 2, 3])), ("a/high.bmp", bmp(20, 8, [4, 5, 6]))]);
        let files = opened(dir.path(), 0, Some(4));
        let shapes = [0, 1].map(|i| files.get(i).unwrap().shape);
        let size = |height, width| ImageShape { height, width, channels: 3 };
        assert_eq!(shapes, [size(10, 4), size(4, 10)]);
        assert_eq!(files.get(1).unwrap().pixels[..3], [1, 2, 3]);
    }

    #[test]
    fn a_bad_file_is_noted_once_and_not_tried_again() {
        let dir = folder([("a/bad.jpg", b"no image".to_vec()), ("a/good.bmp", bmp(2, 2, [0; 3]))]);
        let files = opened(dir.path(), 0, None);
        let reason = files.get(0).unwrap_err().to_string();
        assert!(reason.starts_with(&format!("`{}`: ", dir.path().join("a/bad.jpg").display())));
        // What is there now is not looked at.
        fs::write(dir.path().join("a/bad.jpg"), bmp(2, 2, [0; 3])).unwrap();
        assert!(files.get(0).is_err() && files.get(1).is_ok());
        let noted = files.studio.unreadable().list();
        assert_eq!((noted.len(), files.studio.unreadable().len()), (1, 1));
        assert_eq!(noted[0].0, dir.path().join("a/bad.jpg"));
        assert!(matches!(files.get(2), Err(DataError::NoSuchExample { index: 2, count: 2 })));
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let dir = folder([("a/x.bmp", bmp(2, 2, [0; 3]))]);
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("a/endless.jpg")).unwrap();
        let files = opened(dir.path(), 0, None);
        let error = files.get(0).unwrap_err().to_string();
        assert!(error.ends_with("endless.jpg`: not a file"), "{error}");
    }

    #[test]
    fn images_that_two_threads_decode_take_their_room_once() {
        let dir = folder(images("a", 2));
        // Room for two.
        let files = opened(dir.path(), 480, None);
        for _ in 0..20 {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| files.get(0).unwrap().shape);
                }
            });
        }
        assert!(is_kept(&files, 0) && is_kept(&files, 1));
    }

    #[test]
    fn labels_need_no_decoding() {
        let dir = folder([("a/x.jpg", vec![]), ("b/y.jpg", vec![])]);
        let files = opened(dir.path(), 0, None);
        assert_eq!((files.label(0).unwrap(), files.label(1).unwrap()), (0, 1));
    }
}
