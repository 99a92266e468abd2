//! What the kernels do not cover runs all the same, and is told once.

// Clippy's exception for tests does not reach the functions beside them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Mutex;
use std::thread;

use burn::tensor::{DType, Device, Tensor, TensorData};
use hwa_nn::{Features, Mode, Pass, Windows};
use log::{Level, LevelFilter, Log, Metadata, Record};

/// Keeps warnings.
struct Kept(Mutex<Vec<String>>);

impl Log for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("hwa_nn") && metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            self.0.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

static KEPT: Kept = Kept(Mutex::new(Vec::new()));

/// The largest of each window, of an image that grows with every pixel, and its gradient.
fn largest(device: &Device, dtype: DType, kernel: usize) -> (Vec<f32>, Vec<f32>) {
    let numbers: Vec<f32> = (0..20 * 20).map(|i| i as f32).collect();
    let images = TensorData::new(numbers, [1, 20, 20, 1]).convert_dtype(dtype);
    let images = Tensor::<4>::from_data(images, (device, dtype)).require_grad();
    let windows = Windows { kernel, stride: 3, padding: 0 };
    let y = Features::of(images.clone()).max_pool(windows).tensor(&mut Pass::new(Mode::Train));
    let gradient = images.grad(&y.clone().sum().backward()).unwrap();
    let to_vec = |tensor: Tensor<4>| tensor.into_data().iter::<f32>().collect();
    (to_vec(y), to_vec(gradient))
}

#[test]
fn what_the_kernels_do_not_cover_runs_and_is_told_once() {
    log::set_logger(&KEPT).unwrap();
    log::set_max_level(LevelFilter::Warn);
    let device = Device::flex().autodiff();
    let check = |kernel, dtype| {
        let (y, gradient) = largest(&device, dtype, kernel);
        // The last pixel of each window: of 17 x 17, in rows and columns 16 and 19.
        let rows: Vec<usize> = (0..=(20 - kernel) / 3).map(|i| kernel - 1 + 3 * i).collect();
        let pixels = rows.iter().flat_map(|r| rows.iter().map(move |c| r * 20 + c));
        let pixels: Vec<usize> = pixels.collect();
        assert_eq!(y, pixels.iter().map(|p| *p as f32).collect::<Vec<f32>>());
        let ones = gradient.iter().enumerate().filter(|(_, g)| **g == 1.0).map(|(i, _)| i);
        assert_eq!(ones.collect::<Vec<usize>>(), pixels);
    };
    check(15, DType::F32);
    assert!(KEPT.0.lock().unwrap().is_empty());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (check(17, DType::F32), check(17, DType::F32)));
        }
    });
    check(15, DType::F64);
    check(15, DType::F64);
    let told = "the network runs on Burn's own operations, which are slower: ";
    let expected = [
        "max pooling has a window of 17, the kernels have at most 16",
        "numbers are F64, the kernels have F32",
    ];
    assert_eq!(*KEPT.0.lock().unwrap(), expected.map(|reason| format!("{told}{reason}")));
}

#[test]
#[should_panic(expected = "the network cannot be run")]
fn what_does_not_fit_is_refused_beyond_a_limit_as_well() {
    let images = Tensor::<4>::zeros([1, 20, 20, 1], &Device::flex());
    let windows = Windows { kernel: 17, stride: 1, padding: 0 };
    let x = Features::of(images);
    let y = x.max_pool(windows) + x;
    y.tensor(&mut Pass::new(Mode::Train));
}
