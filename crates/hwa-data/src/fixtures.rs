//! Small folders of images for tests.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// An image of one colour, as a BMP: the one format that takes no crate to write.
pub(crate) fn bmp(height: usize, width: usize, [red, green, blue]: [u8; 3]) -> Vec<u8> {
    let row = (3 * width).next_multiple_of(4);
    let mut bytes = Vec::from(*b"BM");
    let number = |bytes: &mut Vec<u8>, value: usize| bytes.extend((value as u32).to_le_bytes());
    for value in [54 + row * height, 0, 54, 40, width, height] {
        number(&mut bytes, value);
    }
    bytes.extend([1, 0, 24, 0]); // one plane, 24 bits a pixel
    for value in [0, row * height, 2835, 2835, 0, 0] {
        number(&mut bytes, value);
    }
    let mut line = [blue, green, red].repeat(width);
    line.resize(row, 0);
    bytes.extend(line.repeat(height));
    bytes
}

/// A folder with these files: a path and what is in it.
pub(crate) fn folder<P: AsRef<Path>>(files: impl IntoIterator<Item = (P, Vec<u8>)>) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (path, bytes) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

/// So many images of 8 x 10 in a folder, each with its number as its red.
pub(crate) fn images(
    folder: &str,
    count: usize,
) -> impl Iterator<Item = (String, Vec<u8>)> + use<> {
    let folder = folder.to_owned();
    (0..count).map(move |i| (format!("{folder}/{i:03}.bmp"), bmp(8, 10, [i as u8, 100, 200])))
}
