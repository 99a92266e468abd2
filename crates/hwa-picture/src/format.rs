//! What a file is, by its content: names lie. ImageNet has a PNG named `.JPEG`, and a
//! download that failed is often a page of HTML named like a picture.

use image::ImageFormat;

use super::PictureError;

/// A format that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Jpeg,
    /// By the crate `image`.
    Other(ImageFormat, &'static str),
}

/// Begins of files that are read.
const READ: [(&[u8], Format); 7] = [
    (b"\xff\xd8\xff", Format::Jpeg),
    (b"\x89PNG\r\n\x1a\n", Format::Other(ImageFormat::Png, "PNG")),
    (b"GIF87a", Format::Other(ImageFormat::Gif, "GIF")),
    (b"GIF89a", Format::Other(ImageFormat::Gif, "GIF")),
    (b"BM", Format::Other(ImageFormat::Bmp, "BMP")),
    (b"II*\0", Format::Other(ImageFormat::Tiff, "TIFF")),
    (b"MM\0*", Format::Other(ImageFormat::Tiff, "TIFF")),
];

/// Begins of pictures that are not read.
const UNREAD: [(&[u8], &str); 12] = [
    (b"\0\0\0\x0cJXL ", "JPEG XL"),
    (b"\xff\x0a", "JPEG XL"),
    (b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"8BPS", "Photoshop's PSD"),
    (b"\0\0\x01\0", "ICO"),
    (b"\x76\x2f\x31\x01", "OpenEXR"),
    (b"%!PS", "PostScript"),
    (b"P6\n", "PPM"),
    (b"P6 ", "PPM"),
    (b"P5\n", "PGM"),
    (b"P5 ", "PGM"),
];

/// Begins of other files that are found among pictures.
const OTHER: [(&[u8], &str); 5] = [
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"version https://git-lfs", "a pointer of Git LFS: fetch the file itself"),
    (b"{", "a JSON document"),
];

/// The format of a file.
pub(super) fn recognise(bytes: &[u8]) -> Result<Format, PictureError> {
    if bytes.is_empty() {
        return Err(PictureError::Empty);
    }
    if let Some((_, format)) = READ.iter().find(|(begin, _)| bytes.starts_with(begin)) {
        return Ok(*format);
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Ok(Format::Other(ImageFormat::WebP, "WebP"));
    }
    Err(refusal(bytes))
}

/// What a file that is not read is instead.
fn refusal(bytes: &[u8]) -> PictureError {
    // A file of ISO media: its brand stands behind the length of the first box.
    if bytes.get(4..8) == Some(b"ftyp") {
        return match bytes.get(8..12) {
            Some(b"avif" | b"avis") => PictureError::Unsupported { format: "AVIF" },
            Some(b"heic" | b"heix" | b"hevc" | b"mif1" | b"msf1") => {
                PictureError::Unsupported { format: "HEIC" }
            }
            _ => PictureError::NotAPicture { content: "a video" },
        };
    }
    if let Some((_, format)) = UNREAD.iter().find(|(begin, _)| bytes.starts_with(begin)) {
        return PictureError::Unsupported { format };
    }
    if let Some((_, content)) = OTHER.iter().find(|(begin, _)| bytes.starts_with(begin)) {
        return PictureError::NotAPicture { content };
    }
    markup(bytes).unwrap_or_else(|| PictureError::Unknown { begin: begin(bytes) })
}

/// HTML, SVG and other XML, also behind a byte order mark, blanks and comments.
fn markup(bytes: &[u8]) -> Option<PictureError> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]).to_ascii_lowercase();
    if !head.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
        return None;
    }
    Some(if head.contains("<svg") {
        PictureError::Unsupported { format: "SVG" }
    } else if head.contains("<html") || head.contains("<!doctype html") {
        PictureError::NotAPicture { content: "a page of HTML" }
    } else {
        PictureError::NotAPicture { content: "an XML document" }
    })
}

/// The first bytes, as a reader can see them.
fn begin(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(16)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(bytes: &[u8]) -> String {
        recognise(bytes).unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_a_picture_is_told_by_its_content() {
        assert_eq!(told(b""), "the file is empty");
        let page = b"\xef\xbb\xbf\n <!DOCTYPE html><html><body>404</body></html>";
        assert_eq!(told(page), "not a picture but a page of HTML");
        assert_eq!(told(b"<!-- gone --><html>"), "not a picture but a page of HTML");
        assert_eq!(told(b"<Error><Code>AccessDenied"), "not a picture but an XML document");
        let drawing = b"<?xml version=\"1.0\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"/>";
        assert_eq!(told(drawing), "SVG is not read: save the picture as JPEG or PNG");
        let heic = b"\0\0\0\x18ftypheic\0\0\0\0";
        assert_eq!(told(heic), "HEIC is not read: save the picture as JPEG or PNG");
        assert_eq!(told(b"\0\0\0\x18ftypisom"), "not a picture but a video");
        assert_eq!(told(b"%PDF-1.7"), "not a picture but a PDF document");
        assert_eq!(told(b"caf\xe9\n"), "not a picture: it begins with `caf\\xe9\\n`");
        assert_eq!(
            told(&[0; 40]),
            format!("not a picture: it begins with `{}`", "\\x00".repeat(16))
        );
    }

    #[test]
    fn the_begin_of_a_format_is_enough_to_recognise_it_and_less_is_not() {
        for (begin, format) in READ {
            assert_eq!(recognise(begin).unwrap(), format);
            assert!(recognise(&begin[..begin.len() - 1]).is_err());
        }
        let webp = Format::Other(ImageFormat::WebP, "WebP");
        assert_eq!(recognise(b"RIFF\0\0\0\0WEBP").unwrap(), webp);
        assert!(recognise(b"RIFF\0\0\0\0WAVE").is_err());
    }
}
