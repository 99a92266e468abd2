//! Rows of pixels in colour, made longer or shorter with AVX2.
//!
//! With the library's way, resizing took half as long as decoding (decision 0021). Weights and
//! rounding are the library's, so that every CPU gives the same bytes.

use std::arch::x86_64::__m256i;

use pulp::x86::V3;

use super::{CHANNELS, ImageShape, Rectangle};

/// Pixels that a vector of bytes is made into numbers for at a time.
const TAPS: usize = 4;

/// New pixels that are finished together.
const GROUP: usize = 4;

/// Bytes that are loaded at once: the taps, and some that are not used.
const LOADED: usize = 16;

/// The part of an image in a rectangle, brought to another width; `None` if the CPU does not
/// have the instructions.
pub(super) fn resized(
    pixels: &[u8],
    image: ImageShape,
    part: Rectangle,
    width: usize,
) -> Option<Vec<u8>> {
    let v = V3::try_new()?;
    let rows = Rows { pixels, image, part, width, filter: Filter::new(part.width, width) };
    Some(v.vectorize(Bound { v, rows }))
}

/// Which pixels a new one is made of, and how much of each.
struct Filter {
    /// The first byte for each new pixel, in its row; in whole groups.
    begins: Vec<usize>,
    /// Vectors for a new pixel.
    chunks: usize,
    /// As the taps lie in vectors, `chunks` for each new pixel.
    weights: Vec<[i16; 16]>,
    /// Weights are whole multiples of two to the power of minus this.
    bits: i32,
}

impl Filter {
    /// Weights fall off linearly over as many pixels as a new one covers.
    fn new(from: usize, to: usize) -> Self {
        let scale = from as f64 / to as f64;
        let reach = scale.max(1.0);
        let window = |position: usize| {
            let centre = (position as f64 + 0.5) * scale;
            let first = (centre - reach).floor().max(0.0) as usize;
            let last = ((centre + reach).ceil() as usize).min(from);
            let weight = move |at: usize| {
                (1.0 - ((at as f64 - (centre - 0.5)) * (1.0 / reach)).abs()).max(0.0)
            };
            (first..last, weight)
        };
        let (mut taps, mut heaviest) = (1, 0.0f64);
        for position in 0..to {
            let (window, weight) = window(position);
            let sum: f64 = window.clone().map(weight).sum();
            taps = taps.max(window.len());
            heaviest = window.map(weight).fold(heaviest, |most, weight| most.max(weight / sum));
        }
        // The heaviest has to fit into fifteen bits.
        let bits = (0..22).find(|bits| (heaviest * f64::from(2 << bits)).round() >= 32_768.0);
        let bits = bits.unwrap_or(21);
        let (chunks, groups) = (taps.div_ceil(TAPS), to.div_ceil(GROUP));
        let mut begins = vec![0; groups * GROUP];
        let mut weights = vec![[0; 16]; groups * GROUP * chunks];
        for position in 0..to {
            let (window, weight) = window(position);
            begins[position] = window.start * CHANNELS;
            let sum: f64 = window.clone().map(weight).sum();
            for (tap, at) in window.enumerate() {
                let whole = (weight(at) / sum * f64::from(1 << bits)).round() as i16;
                let chunk = &mut weights[position * chunks + tap / TAPS];
                // Two taps of each channel in each half.
                let (half, place) = (tap % TAPS / 2, tap % 2);
                for channel in 0..CHANNELS {
                    chunk[half * 8 + channel * 2 + place] = whole;
                }
            }
        }
        Self { begins, chunks, weights, bits }
    }

    /// How many bytes of a row are looked at.
    fn span(&self) -> usize {
        let last = self.begins.iter().copied().max().unwrap_or(0);
        last + (self.chunks - 1) * TAPS * CHANNELS + LOADED
    }
}

struct Rows<'a> {
    pixels: &'a [u8],
    image: ImageShape,
    part: Rectangle,
    width: usize,
    filter: Filter,
}

/// Work and the vectors it is done with.
struct Bound<'a> {
    v: V3,
    rows: Rows<'a>,
}

impl pulp::NullaryFnOnce for Bound<'_> {
    type Output = Vec<u8>;

    #[inline(always)]
    fn call(self) -> Vec<u8> {
        let Rows { pixels, image, part, width, filter } = self.rows;
        let span = filter.span();
        let mut out = Vec::with_capacity(part.height * width * CHANNELS);
        let mut row = vec![0; filter.begins.len() * CHANNELS];
        let mut padded = Vec::new();
        for y in part.top..part.top + part.height {
            let from = &pixels[(y * image.width + part.left) * CHANNELS..];
            // What stands behind a row has no weight. Behind the last there is nothing.
            let from = match from.len() < span {
                false => from,
                true => {
                    padded.clear();
                    padded.extend_from_slice(from);
                    padded.resize(span, 0);
                    &padded
                }
            };
            match filter.chunks {
                1 => resize_row::<1>(self.v, &filter, from, &mut row),
                2 => resize_row::<2>(self.v, &filter, from, &mut row),
                _ => resize_row::<0>(self.v, &filter, from, &mut row),
            }
            out.extend_from_slice(&row[..width * CHANNELS]);
        }
        out
    }
}

/// With a known number of vectors for a new pixel, or any for 0.
#[inline(always)]
fn resize_row<const CHUNKS: usize>(v: V3, filter: &Filter, from: &[u8], out: &mut [u8]) {
    let chunks = if CHUNKS == 0 { filter.chunks } else { CHUNKS };
    let half = v.avx._mm256_set1_epi32(1 << (filter.bits - 1));
    let bits = v.sse2._mm_cvtsi32_si128(filter.bits);
    // RGB_RGB_RGB_RGB_ without the gaps.
    let close = pulp::cast([0u8, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 15, 15, 15, 15]);
    let begins = filter.begins.as_chunks::<GROUP>().0;
    let weights = filter.weights.chunks_exact(GROUP * chunks);
    for ((begins, weights), out) in
        begins.iter().zip(weights).zip(out.as_chunks_mut::<{ GROUP * CHANNELS }>().0)
    {
        let mut sums = [v.avx._mm256_setzero_si256(); GROUP];
        for ((sum, begin), weights) in sums.iter_mut().zip(begins).zip(weights.chunks_exact(chunks))
        {
            *sum = weighted(v, &from[*begin..], weights);
        }
        let [a, b, c, d] = sums;
        let finished = |sum| v.avx2._mm256_sra_epi32(v.avx2._mm256_add_epi32(sum, half), bits);
        // Packing goes by halves of a vector: a and b come into the lower, c and d into the upper.
        let first = finished(halves_added(v, a, c));
        let second = finished(halves_added(v, b, d));
        let packed = v.avx2._mm256_packs_epi32(first, second);
        let packed = v.avx2._mm256_packus_epi16(packed, packed);
        let packed = v.avx2._mm256_permute4x64_epi64::<0b1000>(packed);
        let packed = v.avx._mm256_castsi256_si128(packed);
        let bytes: [u8; LOADED] = pulp::cast(v.ssse3._mm_shuffle_epi8(packed, close));
        out.copy_from_slice(&bytes[..GROUP * CHANNELS]);
    }
}

/// The weighted sum of pixels: in each half, that of every second pair of them, by channel.
#[inline(always)]
fn weighted(v: V3, from: &[u8], weights: &[[i16; 16]]) -> __m256i {
    // From the bytes RGBRGBRGBRGB to the numbers RRGGBB__ of the first two pixels, and in the
    // upper half those of the other two. A byte of 128 gives 0.
    const NO: u8 = 128;
    let spread = pulp::cast([
        [0, NO, 3, NO, 1, NO, 4, NO, 2, NO, 5, NO, NO, NO, NO, NO],
        [6, NO, 9, NO, 7, NO, 10, NO, 8, NO, 11, NO, NO, NO, NO, NO],
    ]);
    let mut sum = v.avx._mm256_setzero_si256();
    for (chunk, weights) in weights.iter().enumerate() {
        let from = &from[chunk * TAPS * CHANNELS..];
        let Some(bytes) = from.first_chunk::<LOADED>() else { break };
        let bytes = v.avx2._mm256_broadcastsi128_si256(pulp::cast(*bytes));
        let numbers = v.avx2._mm256_shuffle_epi8(bytes, spread);
        let products = v.avx2._mm256_madd_epi16(numbers, pulp::cast(*weights));
        sum = v.avx2._mm256_add_epi32(sum, products);
    }
    sum
}

/// The sums of the halves of both.
#[inline(always)]
fn halves_added(v: V3, a: __m256i, b: __m256i) -> __m256i {
    let lower = v.avx2._mm256_permute2x128_si256::<0x20>(a, b);
    let upper = v.avx2._mm256_permute2x128_si256::<0x31>(a, b);
    v.avx2._mm256_add_epi32(lower, upper)
}
