//! Fashion-MNIST in its authors' format: the IDX files of MNIST, compressed.

use std::fs::File as Opened;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use flate2::read::GzDecoder;

use super::{CatalogueEntry, Parts, Published, Request};
use crate::dataset::ImageShape;
use crate::error::DataError;
use crate::memory::InMemory;
use crate::place::{File, Files, FoundFile};
use crate::subset::Subset;
use crate::transform::{Augment, Channel, Crop, Normalise, Transform};

const SHAPE: ImageShape = ImageShape { height: 28, width: 28, channels: 1 };
const CLASSES: [&str; 10] = [
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
];

const FILES: Files = Files {
    dataset: "fashion-mnist",
    folder: "fashion-mnist",
    files: &[
        File { name: "train-images-idx3-ubyte.gz", md5: "8d4fb7e6c68d591d4c3dfef9ec88bf0d" },
        File { name: "train-labels-idx1-ubyte.gz", md5: "25c81989df183df01b3e8a0aad5dffbe" },
        File { name: "t10k-images-idx3-ubyte.gz", md5: "bef4ecab320f06d8554ea6380940ec79" },
        File { name: "t10k-labels-idx1-ubyte.gz", md5: "bb300cfdad3c16e7a12a480ee83cd310" },
    ],
    archive: "https://github.com/zalandoresearch/fashion-mnist (data/fashion/*.gz)",
};

pub(super) const ENTRY: CatalogueEntry = CatalogueEntry {
    name: FILES.dataset,
    summary: "clothes of 10 kinds, grey",
    num_classes: Some(CLASSES.len()),
    shape: SHAPE,
    train_examples: Some(60_000),
    validation_examples: Some(6_000),
    test_examples: Some(10_000),
    licence: "MIT",
    citation: "H. Xiao, K. Rasul and R. Vollgraf, \"Fashion-MNIST: a Novel Image Dataset for \
               Benchmarking Machine Learning Algorithms\", 2017",
    folder: Some(FILES.folder),
    archive: Some(FILES.archive),
    locate: |dir| FILES.locate(dir).map(drop),
    // Mean and deviation over all pixels of the 60,000 training images.
    transform: || {
        let normalise = Normalise::new(vec![Channel { mean: 0.2860, std: 0.3530 }])?;
        let augment = Augment { crop: Crop::Random { pad: 4 }, flip: true, cutout: 0 };
        Ok(Transform { augment, ..Transform::plain(normalise) })
    },
    read: |request| read(request, 60_000, 10_000),
};

fn read(request: &Request<'_>, train: usize, test: usize) -> Result<Published, DataError> {
    let files = FILES.locate(request.dir)?;
    let [train_images, train_labels, test_images, test_labels] = files.as_slice() else {
        return Err(DataError::NoExamples);
    };
    let train = subset(train_images, train_labels, train)?;
    let test = subset(test_images, test_labels, test)?;
    let parts = Parts { train, validation: None, test };
    let classes = CLASSES.map(str::to_owned).to_vec();
    Ok(Published { parts, classes, files, studio: None, strays: 0, digest: None })
}

fn subset(images: &FoundFile, labels: &FoundFile, count: usize) -> Result<Subset, DataError> {
    let pixels = idx(&images.path, &[count, SHAPE.height, SHAPE.width])?;
    let labels: Vec<u32> = idx(&labels.path, &[count])?.into_iter().map(u32::from).collect();
    Ok(Subset::all(Arc::new(InMemory::new(SHAPE, CLASSES.len(), pixels, labels)?)))
}

/// Reads an IDX file of bytes that has these dimensions: two zeros, 8 for bytes, the number
/// of dimensions, each as 32 bits with the highest byte first, and the values.
fn idx(path: &Path, dimensions: &[usize]) -> Result<Vec<u8>, DataError> {
    let failed = |source| DataError::Io { path: path.to_owned(), source };
    let file = BufReader::new(Opened::open(path).map_err(failed)?);
    let size: usize = dimensions.iter().product();
    let expected = 4 + 4 * dimensions.len() + size;
    let mut bytes = Vec::with_capacity(expected + 1);
    // Not one byte more than it takes to see that there are too many.
    let mut unpacked = GzDecoder::new(file).take(expected as u64 + 1);
    unpacked.read_to_end(&mut bytes).map_err(failed)?;
    let wrong = |reason: String| Err(DataError::WrongContent { path: path.to_owned(), reason });
    let header: Vec<u8> = [0, 0, 8, dimensions.len() as u8]
        .into_iter()
        .chain(dimensions.iter().flat_map(|&length| (length as u32).to_be_bytes()))
        .collect();
    if !bytes.starts_with(&header) {
        let found = &bytes[..bytes.len().min(header.len())];
        return wrong(format!("begins with {found:?}, expected {header:?}"));
    }
    if bytes.len() != expected {
        let more = if bytes.len() > expected { " or more" } else { "" };
        return wrong(format!("unpacks to {}{more} bytes, expected {expected}", bytes.len()));
    }
    bytes.drain(..header.len());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tempfile::TempDir;

    use super::*;
    use crate::fixtures::folder;
    use crate::options::FileOptions;

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn images(count: u8) -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 28, 0, 0, 0, 28];
        bytes.extend((0..count).flat_map(|i| [i; 784]));
        bytes
    }

    fn labels(labels: &[u8]) -> Vec<u8> {
        [&[0, 0, 8, 1, 0, 0, 0, labels.len() as u8], labels].concat()
    }

    /// Three images to train on and two to test on, in the published layout.
    fn small() -> TempDir {
        folder([
            ("fashion-mnist/train-images-idx3-ubyte.gz", gz(&images(3))),
            ("fashion-mnist/train-labels-idx1-ubyte.gz", gz(&labels(&[9, 0, 4]))),
            ("fashion-mnist/t10k-images-idx3-ubyte.gz", gz(&images(2))),
            ("fashion-mnist/t10k-labels-idx1-ubyte.gz", gz(&labels(&[1, 2]))),
        ])
    }

    fn read_small(dir: &Path) -> Result<Published, DataError> {
        let transform = (ENTRY.transform)()?;
        let request = Request {
            dir: Some(dir),
            transform: &transform,
            files: FileOptions::default(),
            holds_out: None,
            split_seed: 0,
        };
        read(&request, 3, 2)
    }

    #[test]
    fn images_and_labels_are_read_in_order() {
        let dir = small();
        let Published { parts: Parts { train, test, .. }, .. } = read_small(dir.path()).unwrap();
        let found: Vec<(u8, u32)> =
            (0..3).map(|i| (train.get(i).unwrap().pixels[783], train.label(i).unwrap())).collect();
        assert_eq!(found, [(0, 9), (1, 0), (2, 4)]);
        assert_eq!((test.len(), test.label(1).unwrap()), (2, 2));
        assert_eq!(test.get(0).unwrap().shape, SHAPE);
    }

    #[test]
    fn wrong_headers_counts_and_labels_are_refused() {
        let refused = |name: &str, bytes: Vec<u8>| {
            let dir = small();
            fs::write(dir.path().join("fashion-mnist").join(name), bytes).unwrap();
            read_small(dir.path()).unwrap_err().to_string()
        };
        let name = "train-images-idx3-ubyte.gz";
        assert!(refused(name, gz(&images(4))).contains("begins with [0, 0, 8, 3, 0, 0, 0, 4,"));
        assert!(refused(name, gz(&labels(&[1, 2, 3]))).contains("begins with"));
        let short = &images(3)[..1000];
        let short = refused(name, gz(short));
        assert!(short.ends_with("unpacks to 1000 bytes, expected 2368"), "{short}");
        let bomb = [images(3), vec![0; 10_000_000]].concat();
        let bomb = refused(name, gz(&bomb));
        assert!(bomb.ends_with("unpacks to 2369 or more bytes, expected 2368"), "{bomb}");
        assert!(refused(name, b"no archive".to_vec()).starts_with("cannot read"));
        let whole = gz(&images(3));
        assert!(refused(name, whole[..whole.len() / 2].to_vec()).starts_with("cannot read"));
        assert!(refused(name, vec![]).contains("cannot read"));
        let label = refused("train-labels-idx1-ubyte.gz", gz(&labels(&[1, 10, 3])));
        assert_eq!(label, "example 1 has label 10, but there are 10 classes");
    }
}
