//! A comparison to test with.

pub(crate) const TEXT: &str = r#"
name = "mine"
seeds = [1, 2]
methods = ["sgd", { label = "HWA", method = "hwa", hwa = { num_models = 3 } }]
networks = ["resnet8", { model = { name = "resnet20" }, optimizer = { rate = 0.05 } }]
datasets = ["digits"]
[experiment]
schedule = { epochs = 4 }
hwa = { window_length = 2 }
[paper.digits.resnet20]
HWA = 70.79
"#;
