//! From the planes of a picture to its colours.
//!
//! Planes of half the size are widened as libjpeg does it by default: each new sample lies
//! between two old ones, at a quarter of their distance. Colours are computed with libjpeg's
//! constants and rounding, inks with Pillow's.

use super::frame::{Component, Plane, Ratio};

/// What the components of a picture mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Grey,
    /// Luma, and how far blue and red are from it.
    YCbCr,
    Rgb,
    /// Inks, of which 255 is none, as Adobe writes them and Pillow reads them.
    Cmyk,
    /// Inks of which three are written as if they were colours.
    Ycck,
}

impl Meaning {
    /// By libjpeg's rules: JFIF is YCbCr, Adobe's marker says what it is, and without either
    /// the names of the components do.
    pub(super) fn of(components: &[Component], is_jfif: bool, adobe: Option<u8>) -> Self {
        let names = components.iter().map(|component| component.id);
        match (components.len(), adobe) {
            (1, _) => Self::Grey,
            (3, _) if is_jfif => Self::YCbCr,
            (3, Some(0)) => Self::Rgb,
            (3, None) if names.eq(*b"RGB") => Self::Rgb,
            (3, _) => Self::YCbCr,
            (_, None | Some(0)) => Self::Cmyk,
            _ => Self::Ycck,
        }
    }
}

/// The colours of planes, `width` pixels in a row.
#[inline(always)]
pub(super) fn develop(
    meaning: Meaning,
    components: &[Component],
    planes: &[Plane],
    width: usize,
    out: &mut [u8],
) {
    let mut full: Vec<Row<'_>> = planes
        .iter()
        .zip(components)
        .map(|(plane, component)| Row::new(plane, component.ratio))
        .collect();
    for (y, out) in out.chunks_exact_mut(width * 3).enumerate() {
        for row in &mut full {
            row.fill(y);
        }
        let pixels = out.as_chunks_mut().0;
        match (&full[..], meaning) {
            ([y], _) => grey(y.samples(), pixels),
            ([r, g, b], Meaning::Rgb) => together(r.samples(), g.samples(), b.samples(), pixels),
            ([y, cb, cr], _) => colours(y.samples(), cb.samples(), cr.samples(), pixels),
            ([c, m, y, k], Meaning::Cmyk) => {
                together(c.samples(), m.samples(), y.samples(), pixels);
                print::<false>(k.samples(), pixels);
            }
            ([y, cb, cr, k], _) => {
                colours(y.samples(), cb.samples(), cr.samples(), pixels);
                print::<true>(k.samples(), pixels);
            }
            _ => {}
        }
    }
}

#[inline(always)]
fn grey(samples: &[u8], pixels: &mut [[u8; 3]]) {
    for (pixel, &sample) in pixels.iter_mut().zip(samples) {
        *pixel = [sample; 3];
    }
}

#[inline(always)]
fn together(a: &[u8], b: &[u8], c: &[u8], pixels: &mut [[u8; 3]]) {
    for (((pixel, &a), &b), &c) in pixels.iter_mut().zip(a).zip(b).zip(c) {
        *pixel = [a, b, c];
    }
}

#[inline(always)]
fn colours(luma: &[u8], blue: &[u8], red: &[u8], pixels: &mut [[u8; 3]]) {
    const HALF: i32 = 1 << 15;
    for (((pixel, &y), &cb), &cr) in pixels.iter_mut().zip(luma).zip(blue).zip(red) {
        let (y, cb, cr) = (i32::from(y), i32::from(cb) - 128, i32::from(cr) - 128);
        let r = y + ((91881 * cr + HALF) >> 16);
        let g = y + ((-22554 * cb - 46802 * cr + HALF) >> 16);
        let b = y + ((116130 * cb + HALF) >> 16);
        *pixel = [r.clamp(0, 255) as u8, g.clamp(0, 255) as u8, b.clamp(0, 255) as u8];
    }
}

/// What light is left by three inks on white paper, and by black over them.
#[inline(always)]
fn print<const INVERTED: bool>(black: &[u8], pixels: &mut [[u8; 3]]) {
    for (pixel, &black) in pixels.iter_mut().zip(black) {
        for ink in pixel {
            let light = if INVERTED { 255 - *ink } else { *ink };
            // Divided by 255, rounded.
            let product = u32::from(light) * u32::from(black) + 128;
            *ink = ((product + (product >> 8)) >> 8) as u8;
        }
    }
}

/// A row of a plane on its way to full width.
struct Row<'a> {
    plane: &'a Plane,
    ratio: Ratio,
    /// Which of the plane's rows it is, where nothing is to be done to it.
    near: usize,
    /// Sums over two rows of the plane.
    sums: Vec<u16>,
    widened: Vec<u8>,
}

impl<'a> Row<'a> {
    fn new(plane: &'a Plane, ratio: Ratio) -> Self {
        let (sums, widened) = match ratio {
            Ratio { across: 1, down: 1 } => (0, 0),
            Ratio { across, .. } => (plane.width, plane.width * across),
        };
        Self { plane, ratio, near: 0, sums: vec![0; sums], widened: vec![0; widened] }
    }

    /// Of at least the picture's width.
    #[inline(always)]
    fn samples(&self) -> &[u8] {
        if self.widened.is_empty() { self.plane.row(self.near) } else { &self.widened }
    }

    /// Makes the samples of row `y` of the picture.
    #[inline(always)]
    fn fill(&mut self, y: usize) {
        let Plane { width, height, .. } = *self.plane;
        self.near = y / self.ratio.down;
        let near = &self.plane.row(self.near)[..width];
        let other = if y.is_multiple_of(2) {
            self.near.saturating_sub(1)
        } else {
            (self.near + 1).min(height - 1)
        };
        let far = &self.plane.row(other)[..width];
        match self.ratio {
            Ratio { across: 1, down: 1 } => {}
            Ratio { across: 1, down: 2 } => {
                let round = 1 + (y % 2) as u16;
                for ((sample, &near), &far) in self.widened.iter_mut().zip(near).zip(far) {
                    *sample = ((3 * u16::from(near) + u16::from(far) + round) >> 2) as u8;
                }
            }
            Ratio { across: 2, down: 1 } if width > 2 => {
                for (sum, &near) in self.sums.iter_mut().zip(near) {
                    *sum = u16::from(near);
                }
                widen::<2>(&self.sums, &mut self.widened);
            }
            Ratio { across: 2, down: 2 } if width > 2 => {
                for ((sum, &near), &far) in self.sums.iter_mut().zip(near).zip(far) {
                    *sum = 3 * u16::from(near) + u16::from(far);
                }
                widen::<4>(&self.sums, &mut self.widened);
            }
            Ratio { across, .. } => {
                for (samples, &near) in self.widened.chunks_exact_mut(across).zip(near) {
                    samples.fill(near);
                }
            }
        }
    }
}

/// Two samples for each: a quarter of the way to the one before, and to the one behind. `BITS`
/// are to be shifted out.
#[inline(always)]
fn widen<const BITS: u32>(sums: &[u16], out: &mut [u8]) {
    // libjpeg rounds up and down in turn: by 1 and 2 of 4, by 8 and 7 of 16.
    let (first, second) = if BITS == 2 { (1, 2) } else { (8, 7) };
    let pairs = out.as_chunks_mut::<2>().0;
    let ([begin, next, ..], [.., before, end]) = (sums, sums) else { return };
    let [pair, middle @ .., last] = pairs else { return };
    *pair = [((4 * begin + first) >> BITS) as u8, ((3 * begin + next + second) >> BITS) as u8];
    for (pair, three) in middle.iter_mut().zip(sums.windows(3)) {
        let [before, sum, behind] = [three[0], three[1], three[2]];
        let left = (3 * sum + before + first) >> BITS;
        let right = (3 * sum + behind + second) >> BITS;
        *pair = [left as u8, right as u8];
    }
    *last = [((3 * end + before + first) >> BITS) as u8, ((4 * end + second) >> BITS) as u8];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[u8]) -> Vec<Component> {
        let ratio = Ratio { across: 1, down: 1 };
        let component = |&id| Component { id, across: 1, down: 1, ratio, quantisation: 0 };
        names.iter().map(component).collect()
    }

    #[test]
    fn components_mean_what_libjpeg_says() {
        let of = |names: &[u8], jfif, adobe| Meaning::of(&named(names), jfif, adobe);
        assert_eq!(of(&[1], false, Some(0)), Meaning::Grey);
        assert_eq!(of(&[1, 2, 3], false, None), Meaning::YCbCr);
        assert_eq!(of(b"RGB", false, None), Meaning::Rgb);
        assert_eq!(of(b"RGB", true, None), Meaning::YCbCr);
        assert_eq!(of(b"RGB", false, Some(1)), Meaning::YCbCr);
        assert_eq!(of(&[1, 2, 3], false, Some(0)), Meaning::Rgb);
        assert_eq!(of(&[1, 2, 3], true, Some(0)), Meaning::YCbCr);
        assert_eq!(of(&[1, 2, 3, 4], false, None), Meaning::Cmyk);
        assert_eq!(of(&[1, 2, 3, 4], false, Some(0)), Meaning::Cmyk);
        assert_eq!(of(&[1, 2, 3, 4], false, Some(2)), Meaning::Ycck);
    }

    #[test]
    fn new_samples_lie_at_a_quarter_of_the_way() {
        let mut out = [0; 6];
        widen::<2>(&[0, 100, 200], &mut out);
        // 0, 25, 75, 125, 175, 200, of which those with a half are rounded by turns.
        assert_eq!(out, [0, 25, 75, 125, 175, 200]);
        // Over two rows as well: sums are four times as large.
        widen::<4>(&[0, 400, 800], &mut out);
        assert_eq!(out, [0, 25, 75, 125, 175, 200]);
    }

    #[test]
    fn colours_and_inks_follow_the_hand_computed_values() {
        let mut pixel = [[0; 3]];
        // 100 + 1.402 * 50, 100 - 0.34414 * -28 - 0.71414 * 50, 100 + 1.772 * -28
        colours(&[100], &[100], &[178], &mut pixel);
        assert_eq!(pixel, [[170, 74, 50]]);
        // Half of the light of each, as 255 is no ink.
        together(&[255], &[100], &[0], &mut pixel);
        print::<false>(&[128], &mut pixel);
        assert_eq!(pixel, [[128, 50, 0]]);
    }
}
